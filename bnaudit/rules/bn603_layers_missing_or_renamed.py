"""Norm layers are in one of the two and not in the other, or under another name.

## What it finds

- Norm layers of the baseline that have no counterpart in the subject, and the reverse, after pairing by name, by a
  common renaming, by order and shape, and by values. A warning where the one that lacks it is a graph or program:
  exporters leave out what the forward does not use.
- Layers that do have one under another name, with the renaming that makes all names equal: an error between two
  artifacts that are loaded by name, a note where one is a graph or program, which carries its own code.

Prefixes of wrappers, `module.` (DataParallel), `_orig_mod.` (torch.compile) and `model.` (Lightning), are removed
first and are no difference.

## Why it matters

A loader that is not strict passes over what it does not find: `load_state_dict(..., strict=False)` with another prefix
loads *nothing*, leaves mean 0 and variance 1 in every norm, and says so only in a return value that nobody reads.

## Example

    baseline                          subject
    bn1.running_mean                  backbone.bn1.running_mean
    layer1.0.bn1.running_mean         backbone.layer1.0.bn1.running_mean

Replacing `backbone.` by nothing in the subject's names makes them equal. Loaded as it is, not one tensor fits; a
channel of mean 20 and variance 25 that sees 30 then answers (30 − 0) / 1 = 30 instead of (30 − 20) / 5 = 2.

## How to fix

Rename the keys, load strictly, and look at what it says:

    state = {name.removeprefix("backbone."): value for name, value in state.items()}
    model.load_state_dict(state, strict=True)

Layers that are really missing: save and load the whole state dict, or say what was left out on purpose
(`--intended 'BN603=aux.*'`).

## Limits

- Norms that were folded into convolutions are not missing (BN605 checks the fold). Nor are LayerNorm, GroupNorm and
  the like: a state dict does not tell them from other parameters.
- A renaming is a proposal from names, shapes and values; nothing is renamed.
- Layers of the same name are taken for the same layer, whatever their shapes are (BN604).
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.comparison import Comparison, PairedBy, Rename
from bnaudit.description import NormKind, NormLayer, Part
from bnaudit.matching.absence import is_missing
from bnaudit.matching.naming import is_counted, plain_name
from bnaudit.printable import printable
from bnaudit.results import Confidence, Hit, Severity
from bnaudit.rules import Case, rule

_MISSING = "give both the same layers, and load with strict=True; left out on purpose: --intended BN603"
_UNUSED = "exporters leave out what the forward does not use (an auxiliary head): if that is it, --intended BN603"
_MOST_NAMED = 4
"""Renamings that a message writes out."""


@rule(id="BN603", severity=Severity.ERROR, needs=("baseline",))
def layers_missing_or_renamed(case: Case) -> Iterator[Hit]:
    """One hit per missing layer, one for all that are renamed; one where the two have nothing in common."""
    if case.comparison is None:
        return
    comparison = case.comparison
    matching = comparison.matching
    gone = [layer for layer in matching.only_baseline if is_missing(comparison, layer, "subject")]
    added = [layer for layer in matching.only_subject if is_missing(comparison, layer, "baseline")]
    if matching.pairs or not (gone or added):
        yield from _missing(comparison, gone, "in the baseline, not here", comparison.subject_part)
        yield from _missing(comparison, added, "here, not in the baseline", comparison.baseline_part)
        yield from _renamed(comparison)
    else:
        yield _strangers(comparison, len(gone), len(added))


def _missing(comparison: Comparison, layers: list[NormLayer], where: str, lacking: Part) -> Iterator[Hit]:
    for layer in layers:
        channels = f" of {layer.channels:,} channels" if layer.channels is not None else ""
        yield Hit(
            message=f"{'an' if layer.kind is NormKind.INSTANCE else 'a'} {layer.kind.value} norm{channels} {where}",
            advice=_UNUSED if lacking.carrier.has_code else _MISSING,
            layer=layer.name,
            part=comparison.subject_part.name,
            confidence=Confidence.MEDIUM if lacking.carrier.has_code else Confidence.HIGH,
        )


def _strangers(comparison: Comparison, gone: int, added: int) -> Hit:
    return Hit(
        message=f"no norm layer in common: {_count(gone)} in the baseline, {_count(added)} here",
        advice="compare artifacts of one model; choose the part with `file.pt#part` where a file holds several",
        part=comparison.subject_part.name,
        value="no layer in common",
    )


def _count(number: int) -> str:
    return f"{number:,}" if number else "none"


def _renamed(comparison: Comparison) -> Iterator[Hit]:
    """One hit for all that have another name; names that an exporter made up by counting are none."""
    other = [
        pair
        for pair in comparison.matching.pairs
        if pair.by is not PairedBy.NAME and not (is_counted(pair.subject) or is_counted(pair.baseline))
    ]
    if not other:
        return
    known = {plain_name(pair.baseline.name) for pair in other}
    taken = sum(plain_name(pair.subject.name) in known for pair in other)
    silent = f"; loaded by name, {taken:,} would get the values of another layer" if taken else ""
    carries_code = comparison.subject_part.carrier.has_code or comparison.baseline_part.carrier.has_code
    layers = "layer has" if len(other) == 1 else "layers have"
    yield Hit(
        message=f"{len(other):,} {layers} other names than in the baseline{_said(comparison.matching.renames)}{silent}",
        advice="nothing to do: an artifact with its own code is not loaded by name"
        if carries_code
        else "rename the keys before loading, and load with strict=True",
        part=comparison.subject_part.name,
        value=", ".join(map(_written, comparison.matching.renames)) or "no common rule",
        severity=Severity.NOTE if carries_code else None,
    )


def _said(renames: tuple[Rename, ...]) -> str:
    if not renames:
        return ", by no common rule"
    return "; the same after " + ", ".join(map(_written, renames[:_MOST_NAMED])) + ", …" * (len(renames) > _MOST_NAMED)


def _written(rename: Rename) -> str:
    """`backbone.` → nothing."""
    old, new = printable(rename.old), printable(rename.new)
    if not old:
        return f"`{new}` in front"
    return f"`{old}` → `{new}`" if new else f"`{old}` left out"
