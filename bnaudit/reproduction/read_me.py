"""README.md and included.txt of a reproduction."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from bnaudit.markdown_text import prose
from bnaudit.reproduction.demonstration import Demonstration, LayerCase, StatisticsCase
from bnaudit.reproduction.model_source import ModelSource
from bnaudit.reproduction.quoted import Call
from bnaudit.reproduction.words import summary
from bnaudit.session import Mode, NormCall
from bnaudit.tracing import by_hand

_MOST_MODES = 30


def read_me(
    found: Demonstration, source: ModelSource, runner: str, calls: Sequence[NormCall], said: str, copied: bool
) -> str:
    """Markdown."""
    sections = [
        [f"# {found.rule}: the smallest case", "", prose(summary(found))],
        _running(source, copied),
        ["```", *(line.rstrip() for line in said.strip().splitlines()), "```"],
        _layer(found.case),
        _statistics(found.statistics),
        _modes(found, calls),
        _versions(found, runner),
        ["`included.txt` lists what of your data is in this directory."],
    ]
    return "\n\n".join("\n".join(lines) for lines in map(list, sections) if lines) + "\n"


def _running(source: ModelSource, copied: bool) -> Iterable[str]:
    yield "    python repro.py"
    yield ""
    reads = "the copy of the model in this directory" if copied else "your model where it is"
    yield f"exits with 1 while the defect is there and with 0 when it is mended. It reads {reads}: mend that and run it"
    yield "again. bnaudit is not needed. When it was written it said:"


def _layer(case: LayerCase | None) -> Iterable[str]:
    """The arithmetic of one channel of the norm where samples meet, in both forwards."""
    if case is None:
        return
    yield f"## {prose(case.layer or 'the model itself')}, channel {case.channel}"
    yield ""
    name = prose(case.class_name) or "norm"
    yield f"This {name} suffices: with the statistics of all other norms held, it alone shows"
    yield "the defect. It normalizes with the batch, so that the same activation becomes something else:"
    yield ""
    yield "| | first forward | second forward |" + (" stored |" if case.stored else "")
    yield "|---|---:|---:|" + ("---:|" if case.stored else "")
    stored = case.stored
    yield _row("mean", case.means, stored[0] if stored else None)
    yield _row("variance (biased)", case.variances, stored[1] if stored else None)
    x = _six((case.means[0] + case.means[1]) / 2)
    gained = [_normalized(x, mean, var, case) for mean, var in zip(case.means, case.variances, strict=True)]
    yield _row(f"x = {by_hand.written(x)} becomes", gained, _normalized(x, *stored, case) if stored else None)
    yield ""
    yield f"gamma {_text(case.gamma)}, beta {_text(case.beta)}, epsilon {_text(case.eps)}."


def _statistics(case: StatisticsCase | None) -> Iterable[str]:
    if case is None:
        return
    yield f"## {prose(case.layer or 'the model itself')}"
    yield ""
    yield "With all norms in training mode this is the first layer whose stored mean and variance are off."
    yield f"Channels furthest off: {', '.join(map(str, case.worst))}. Measure the statistics again on training data."


def _normalized(x: float, mean: float, var: float, case: LayerCase) -> float:
    with np.errstate(all="ignore"):
        return float((x - mean) / np.sqrt(np.float64(var + case.eps)) * case.gamma + case.beta)


def _row(label: str, values: Sequence[float], stored: float | None) -> str:
    cells = [label, *(_text(value) for value in values), *([_text(stored)] if stored is not None else [])]
    return f"| {' | '.join(cells)} |"


def _six(value: float) -> float:
    return float(f"{value:.6g}") if math.isfinite(value) else value


def _text(value: float) -> str:
    return by_hand.written(_six(value))


def _modes(found: Demonstration, calls: Sequence[NormCall]) -> Iterable[str]:
    if not calls:
        return
    name = "eval" if found.mode is Mode.INFERENCE else "as saved"
    yield f"## Modes ({name})"
    yield ""
    rows = list(
        dict.fromkeys((call.layer or call.place.module or call.place.operator, call.uses_batch) for call in calls)
    )
    for layer, uses_batch in rows[:_MOST_MODES]:
        yield f"- {prose(layer or 'the model itself')}: {'its input' if uses_batch else 'stored statistics'}"
    if len(rows) > _MOST_MODES:
        yield f"- and {len(rows) - _MOST_MODES} more"


def _versions(found: Demonstration, runner: str) -> Iterable[str]:
    yield "## Found with"
    yield ""
    yield f"Python {platform.python_version()}, {prose(runner)}, NumPy {np.__version__} on {platform.system()};"
    yield f"seed {found.seed if found.seed is not None else 'none: the model draws nothing'}."


def included(found: Demonstration, call: Call, source_name: str, copies: Sequence[Path], *, made: bool) -> str:
    """Plain text: every row of the user's data that is here, and what was left out of it."""
    lines = [f"inputs.npz holds {len(found.labels)} of the samples ({source_name}):", ""]
    lines += [f"  {at}: {label}" for at, label in enumerate(found.labels)]
    lines += ["", "arrays:"]
    lines += [f"  {name}: {array.dtype} {tuple(array.shape)}" for name, array in call.arrays.items()]
    if found.zeroed:
        lines += ["", f"{found.zeroed * 100:.0f} % of their values are 0: the defect shows without the others."]
    if made:
        lines += ["", "None of it is your data: no inputs were given."]
    lines += ["", "Layer names, and the numbers of one channel of a norm layer, are in README.md and repro.py."]
    lines += (
        ["Copies of your files:", *(f"  {path.name}" for path in copies)]
        if copies
        else ["No weights and no code of yours are here: repro.py reads them by their paths."]
    )
    return "\n".join(lines) + "\n"
