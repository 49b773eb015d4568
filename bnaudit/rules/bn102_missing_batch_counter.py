"""A batch norm has statistics and no `num_batches_tracked`.

## What it finds

A batch norm with a running mean and a running variance and without the counter of training batches beside them, in a
state dict, a pickled module or a script. It is

- a **note** in general: PyTorch before 0.4.1 had no counter, and many converters leave it out;
- a **warning** when the state dict's `_metadata` says version 2 exactly: the class that was saved had a counter;
- an **error** when the layer's momentum is known to be `None`: a cumulative average cannot go on without its count.

## Why it matters

Predictions do not use the counter, so a missing one changes nothing in eval mode. Two things can go wrong later:

- A strict `load_state_dict` fails with *Missing key(s): bn1.num_batches_tracked* when the metadata says version 2.
  Without metadata (a plain dict, safetensors) or with an older version PyTorch fills in 0 and says nothing; where the
  checkpoint was loaded into the model given with `--model`, the finding says that this happened.
- With `momentum=None` the next batch weighs 1 / (counter + 1). Restarted from 0 it weighs 1, and one batch replaces
  the average over the whole training set.

## Worked arithmetic

Cumulative average over 999 batches, mean 5. The next batch has mean 8.

    counter kept       5 + (8 − 5) / 1000 = 5.003
    counter lost (0)   5 + (8 − 5) / 1    = 8

With momentum 0.1 the counter has no part in the update: 0.9 · 5 + 0.1 · 8 = 5.3 in both cases.

## How to fix

For a strict load, add what is missing:

    for name in [key for key in state if key.endswith("running_mean")]:
        state.setdefault(name.replace("running_mean", "num_batches_tracked"), torch.tensor(0))

For `momentum=None`, measure the statistics again (`torch.optim.swa_utils.update_bn`) before training on.

## Limits

- ONNX graphs and exported programs have no place for a counter, and other frameworks' names (`moving_mean`) no
  counter to lose: silent.
- Frozen batch norms (torchvision's, detectron2's: `_metadata` version 1 or 3, or the class) never have one: silent.
- Layers that lack a mean or a variance are told by BN101.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.description import CUMULATIVE, Carrier, Evidence, NormLayer, Part
from bnaudit.initial_state import LEARNS_STATISTICS
from bnaudit.layer_names import strip_wrappers
from bnaudit.measurement import Loaded
from bnaudit.results import Hit, Question, Severity
from bnaudit.rules import Case, rule

_COUNTED_VERSION = 2
_CARRIERS = (Carrier.STATE_DICT, Carrier.MODULE, Carrier.SCRIPT)
_ADD = "nothing to do for inference; for a strict load add num_batches_tracked = 0"
_RECOUNT = "measure the statistics again with update_bn before training on"


@rule(id="BN102", severity=Severity.NOTE, question=Question.BUFFERS)
def missing_batch_counter(case: Case) -> Iterator[Hit]:
    """One hit per layer."""
    for part, layer in case.subject.layers:
        if part.carrier in _CARRIERS and _lacks_counter(layer):
            yield _hit(part, layer, _was_filled(case, part, layer))


def _lacks_counter(layer: NormLayer) -> bool:
    mean, var = layer.running_mean, layer.running_var
    return (
        layer.num_batches_tracked is None
        and mean is not None
        and var is not None
        and layer.kind in LEARNS_STATISTICS
        and layer.evidence is not Evidence.OPERATOR
        and layer.metadata_version in (None, _COUNTED_VERSION)
        and layer.tracks_statistics is not False
        and mean.name.endswith("running_mean")
    )


def _was_filled(case: Case, part: Part, layer: NormLayer) -> bool:
    """Whether loading the checkpoint into the given model left the model's own counter in its place."""
    if case.measured is None or case.measured.part != part.name:
        return False
    filled = {strip_wrappers(name) for loaded in case.measured.of(Loaded) for name in loaded.filled_counters}
    return strip_wrappers(f"{layer.name}.num_batches_tracked" if layer.name else "num_batches_tracked") in filled


def _hit(part: Part, layer: NormLayer, filled: bool) -> Hit:
    severity, message, advice = Severity.NOTE, "num_batches_tracked is missing; predictions do not use it", _ADD
    if layer.momentum is CUMULATIVE:
        severity, advice = Severity.ERROR, _RECOUNT
        message = (
            "num_batches_tracked is missing and momentum is None: the cumulative average restarts at the next batch"
        )
    elif layer.metadata_version == _COUNTED_VERSION:
        severity = Severity.WARNING
        message = "num_batches_tracked is missing and the metadata says version 2: a strict load fails"
    elif filled:
        message = "num_batches_tracked is missing; load_state_dict filled it in silently, predictions do not use it"
    return Hit(message=message, advice=advice, layer=layer.name, part=part.name, severity=severity)
