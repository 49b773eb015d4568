"""A batch norm that trains computes its statistics from too few values.

## What it finds

A batch norm has m = N · spatial positions values per channel for one mean and one variance. Reported when m < 16, an
error when m = 1, for layers that train: those left in training mode, and all that `--training-batch-size` is given
for (samples per device and step).

## Why it matters

With few values the batch's statistics are mostly chance. Training becomes noisy, and the running statistics, which
average over many batches, describe another network than the one that was trained. With one value per channel the output
is beta whatever the input, and PyTorch raises an error in most cases.

## Worked arithmetic

The variance of m independent normal values has the relative standard deviation √(2/(m − 1)), the mean 1/√m:

    m = 2       variance ± 141 %     mean ± 71 % of one standard deviation
    m = 16      variance ±  37 %     mean ± 25 %
    m = 256     variance ±   9 %     mean ±  6 %

A pooled branch (1 × 1) in a net that trains with 8 images per device has m = 8; a layer with a 7 × 7 map, m = 392.

## How to fix

    torch.utils.data.DataLoader(data, batch_size=8, drop_last=True)    # a last batch of 1 has m = 1
    net = torch.nn.SyncBatchNorm.convert_sync_batchnorm(net)           # m counts all devices
    torch.nn.GroupNorm(8, channels)                                    # no batch at all

Accumulating gradients does **not** enlarge m: each forward has its own statistics, and so has each device.

## Limits

- Without `--training-batch-size`, and for a layer left in training mode, m is that of the batch that was run.
- Layers in eval mode that nothing says will train are not reported: the ledger shows their values per sample.
- Layers that the model's own `train()` keeps in eval mode do not train.
- Neighbouring positions are alike, so m overstates what is known: the effective number is 3 to 60 % of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.description import NormKind
from bnaudit.measurement import Measured, NormSize, Trained
from bnaudit.places import by_place, layer_at, norm_layer
from bnaudit.results import Hit, Severity
from bnaudit.rules import Case, rule

_ADVICE = (
    "train with larger batches per device or SyncBatchNorm (accumulation does not help, each device has its own), "
    "or use GroupNorm"
)


@rule(id="BN405", severity=Severity.WARNING, limits={"values": 16}, needs=("train_eval_gap",))
def too_few_values_per_channel(case: Case) -> Iterator[Hit]:
    """One hit per layer; of several calls the one with the fewest values."""
    if case.measured is None:
        return
    kept = _kept_in_eval(case.measured)
    sizes = [size for size in case.measured.of(NormSize) if size.is_batch_norm and _values(size) is not None]
    for name, found in by_place((layer_at(case.subject, size.place, size.layer), size) for size in sizes).items():
        layer = norm_layer(case.subject, name)
        if name in kept or (layer is not None and layer.kind is NormKind.FROZEN_BATCH):
            continue
        fewest = min(found, key=lambda size: _values(size) or 0)
        values = _values(fewest)
        if values is not None and values < case.limits["values"]:
            yield _hit(case, name, fewest, values)


def _kept_in_eval(measured: Measured) -> set[str]:
    return {layer.name for found in measured.of(Trained) for layer in found.part.layers if layer.training is False}


def _values(size: NormSize) -> int | None:
    """Values per channel in training; None for a layer that nothing says will train."""
    if size.training_batch_size is not None:
        return size.values_per_sample * size.training_batch_size
    return size.values_per_statistic if size.trains else None


def _hit(case: Case, name: str | None, size: NormSize, values: int) -> Hit:
    samples = size.training_batch_size
    if samples is None:
        samples = values // max(size.values_per_sample, 1)
    count = "1 value" if values == 1 else f"{values} values"
    return Hit(
        message=f"it trains on {count} per channel: {samples} samples of {size.values_per_sample} each",
        advice=_ADVICE,
        layer=name,
        value=values,
        limit=int(case.limits["values"]),
        severity=Severity.ERROR if values <= 1 else Severity.WARNING,
    )
