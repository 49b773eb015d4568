"""A comparison as tables of texts that all reports for people show: what is equal, how far the rest moved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bnaudit.comparison import Comparison, Fold, Move
from bnaudit.printable import printable
from bnaudit.results import Audit
from bnaudit.terminal.amounts import bytes_text, number, plural
from bnaudit.terminal.comparison_conclusion import by_cause, differs, is_equal, standings
from bnaudit.terminal.comparison_run import round_trip_texts, run_texts

_STILL = "="
"""In a column of sizes: exactly equal; an empty cell is not known."""


class Listing(NamedTuple):
    """A table: its title stands above, or over the first column."""

    title: str
    columns: tuple[str, ...]
    """Of the second column on."""
    rows: tuple[tuple[str, ...], ...]
    """Printable; what matters most first."""
    numeric: bool = True
    """Whether all but the first column are numbers."""


def title(audit: Audit) -> str:
    """`trained.pt against deployed.onnx`, with the parts that have names."""
    comparison = audit.comparison
    if comparison is None:
        return printable(audit.artifact.path)
    baseline = _named(comparison.baseline.artifact.path, comparison.baseline_part.name)
    if comparison.round_trip is not None:
        return f"{baseline} saved and loaded again"
    return f"{baseline} against {_named(audit.artifact.path, comparison.subject_part.name)}"


def sides(audit: Audit) -> Sequence[tuple[str, str]]:
    """(role, format and size) of the baseline and of the subject."""
    comparison = audit.comparison
    if comparison is None:
        return []
    trip = comparison.round_trip is not None
    both = [("model" if trip else "baseline", comparison.baseline.artifact), ("subject", audit.artifact)]
    return [
        (role, " · ".join(filter(None, (printable(a.format), printable(a.producer or ""), bytes_text(a.size)))))
        for role, a in both[: 1 if trip else 2]
    ]


def pairing(comparison: Comparison) -> list[str]:
    """How the layers were paired, where it was not by their names alone."""
    said = []
    for rename in comparison.matching.renames:
        old, new = printable(rename.old), printable(rename.new)
        what = f"{old} in the subject's names" if old else "the beginning of the subject's names"
        said.append(f"{plural(rename.layers, 'layer')} paired by taking {new or 'nothing'} for {what}")
    found = [pair.by for pair in comparison.matching.pairs]
    for by in dict.fromkeys(found):
        if by.value not in ("name", "rename"):
            said.append(f"{plural(found.count(by), 'layer')} paired by {by.value}")
    return said


def untold(comparison: Comparison) -> str:
    """What could not be compared of any layer, or of some that are equal otherwise; "" where all could."""
    least = 1 if is_equal(comparison) else len(comparison.moves)
    words = [each.what for each in standings(comparison) if each.untold >= least]
    if not comparison.moves or not words:
        return ""
    return f"not compared, since one of the two does not say: {', '.join(words)}"


def counters(comparison: Comparison) -> str:
    """`batches: 86,296 in the baseline, 254,016 in the subject`; "" where they are equal or not in both."""
    both = {move.counters for move in comparison.moves if move.counters is not None}
    if all(theirs == mine for theirs, mine in both):
        return ""
    spans = []
    for position, side in enumerate(("baseline", "subject")):
        values = [pair[position] for pair in both]
        low, high = number(min(values)), number(max(values))
        spans.append(f"{low if low == high else f'{low} to {high}'} in the {side}")
    return f"batches: {', '.join(spans)}"


def told(audit: Audit) -> list[str]:
    """What is said in sentences beside the conclusion and the tables."""
    comparison = audit.comparison
    if comparison is None:
        return []
    folds = comparison.folds
    unfound = [f"no convolution that fits was found for {printable(name)}" for name in folds.unfound] if folds else []
    trip = comparison.round_trip
    ran = round_trip_texts(trip) if trip is not None else run_texts(comparison, failed=audit.run_failed)
    stated = (*comparison.remarks, *(folds.remarks if folds else ()))
    said = (*map(printable, stated), *pairing(comparison), untold(comparison), counters(comparison), *unfound)
    return [*filter(None, said), *(text.plain for text in ran)]


def tables(comparison: Comparison) -> list[Listing]:
    """All that there are of a comparison, in the order of the report."""
    every = (counted(comparison), sizes(comparison), folded(comparison), reshaped(comparison))
    return [each for each in every if each is not None]


def counted(comparison: Comparison) -> Listing | None:
    """How many layers are equal in each respect; None where all are."""
    if not comparison.moves or is_equal(comparison):
        return None
    shown = [each for each in standings(comparison) if each.equal or each.differing]
    rows = [(each.what, str(each.equal), str(each.differing), str(each.untold)) for each in shown]
    name = plural(len(comparison.moves), "norm layer")
    return Listing(name, ("equal", "different", "not said"), tuple(rows))


def sizes(comparison: Comparison) -> Listing | None:
    """How far each layer moved, the furthest first; None where none did."""
    moved = sorted(_moved(comparison), key=_size, reverse=True)
    if not moved:
        return None
    rows = tuple((printable(move.layer) or "(root)", *_amounts(move)) for move in moved)
    return Listing("moved, furthest first", ("mean", "variance", "weights", "gain", "shift"), rows)


def median_row(comparison: Comparison) -> tuple[str, ...]:
    """Of each column of `sizes`, the middle layer's."""
    moved = _moved(comparison)
    middle = (
        _median(move.mean_shift for move in moved),
        _median(move.var_ratio for move in moved),
        _median(move.affine_change for move in moved),
        _median(move.gain_change for move in moved),
        _median(move.shift_change for move in moved),
    )
    return (f"median of {len(moved)}", *_columns(*middle))


def folded(comparison: Comparison) -> Listing | None:
    """Each fold with its cause, those that are not equal first; None without any."""
    if comparison.folds is None or not comparison.folds.folds:
        return None
    ordered = [fold for _, found in by_cause(comparison.folds.folds) for fold in found]
    return Listing("folded norm", ("result", "into", "what was seen"), tuple(map(_fold, ordered)), numeric=False)


def reshaped(comparison: Comparison) -> Listing | None:
    """Layers beside the norms with another shape; None without any."""
    rows = [
        (printable(each.layer), *("×".join(map(str, shape)) for shape in each.shapes)) for each in comparison.reshaped
    ]
    return Listing("changed shape", ("baseline", "subject"), tuple(rows), numeric=False) if rows else None


def _named(path: str, part: str) -> str:
    return printable(f"{path}#{part}" if part else path)


def _fold(fold: Fold) -> tuple[str, ...]:
    return (printable(fold.layer) or "(root)", fold.cause.value, printable(fold.into), printable(fold.detail))


def _amounts(move: Move) -> tuple[str, ...]:
    return _columns(move.mean_shift, move.var_ratio, move.affine_change, move.gain_change, move.shift_change)


def _columns(
    mean: float | None, ratio: float | None, affine: float | None, gain: float | None, shift: float | None
) -> tuple[str, ...]:
    return (
        "" if mean is None else f"{_short(mean)} σ" if mean else _STILL,
        "" if ratio is None else f"×{ratio:.3g}" if ratio != 1 else _STILL,
        *("" if value is None else f"{_short(value * 100)} %" if value else _STILL for value in (affine, gain, shift)),
    )


def _short(value: float) -> str:
    return f"{value:.0f}" if 9.95 <= abs(value) < 1e6 else f"{value:.2g}"


def _median(values: Iterable[float | None]) -> float | None:
    known = sorted(value for value in values if value is not None)
    return known[len(known) // 2] if known else None


def _moved(comparison: Comparison) -> list[Move]:
    return [move for move in comparison.moves if differs(move) and _size(move) > 0]


def _size(move: Move) -> float:
    """By what it does to the output, else by what is known."""
    known = [value for value in (move.gain_change, move.shift_change) if value is not None]
    known = known or [value for value in (move.affine_change, move.mean_shift) if value is not None]
    return max((value for value in known if value == value), default=0.0)
