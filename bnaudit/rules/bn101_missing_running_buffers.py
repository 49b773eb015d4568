"""A batch norm's running mean or variance is not in the file.

## What it finds

A batch norm that tracks statistics and has no stored mean, no stored variance, or neither. It is **proved** when

- one of mean, variance and counter is there and another is missing;
- the class and its flags (pickled module, TorchScript, the model given with `--model`) or the graph node say that
  statistics belong to it;
- the tensor is named and has no values: saved from the meta device, offloaded, or emptied by sharding;
- a state dict whose `_metadata` says version 2 (PyTorch's batch and instance norm) keeps only weight and bias, while
  the layer at the same place in a sibling block has its statistics.

Where another part of the file has the statistics of the same layers (a shadow of the parameters beside the model),
there is a note that says so.

Otherwise a layer with nothing but a weight and a bias may be batch norm without its statistics, batch norm without
tracking, or `InstanceNorm(affine=True)`: the three are byte-identical in a state dict. Then there is one note per
model, and the verdict *buffers complete* stays open.

## Why it matters

`load_state_dict(strict=False)`, and every loader that copies parameters only, leaves the missing statistics at their
initial values, mean 0 and variance 1. No error is raised, and in training mode nothing shows, because the batch is
used there. In eval mode every activation is off.

## Worked arithmetic

Trained statistics: mean 20, variance 25. The activation 30 becomes (30 − 20) / √25 = **2**. Loaded without them:
(30 − 0) / √1 = **30**, fifteen times too large, before the next layer multiplies it.

## How to fix

Save everything, not only the parameters:

    torch.save(model.state_dict(), "model.pt")                                  # right: parameters and buffers
    torch.save({n: p for n, p in model.named_parameters()}, "model.pt")         # wrong: buffers are lost

Copies for averaging, federated rounds or adapters need `model.buffers()` too. If the statistics are gone, measure
them again on training data: `torch.optim.swa_utils.update_bn(loader, model)`.

## Limits

- LayerNorm, GroupNorm and RMSNorm have no statistics, and PReLU no bias: never reported. `_metadata` version 1 says
  that a layer is not PyTorch's batch norm, a version above 2 or a weight that is not 1-D that it is another class.
- What has a mean or a variance alone beside tensors that batch norm does not have, or in a class of another version, is
  another norm (batch renormalization, EvoNorm).
- A name such as `bn1` is weak evidence, and so is one that differs from complete layers' in numbers alone (`stem.4`
  beside `stem.1`) where no class version is left: a note of low confidence, never more.
- Batch norm with `track_running_stats=False` has no statistics by design: see BN204.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bnaudit.averaged_weights import complete_copies
from bnaudit.description import Carrier, Description, Evidence, NormKind, NormLayer, Part, StoredTensor
from bnaudit.layer_names import sibling_key, strip_wrappers
from bnaudit.measurement import Loaded
from bnaudit.name_patterns import compress
from bnaudit.results import Confidence, Hit, Question, Severity
from bnaudit.rules import Case, rule

_SAVE_ALL = "save the whole state_dict(), buffers too, or measure the statistics again with update_bn"
_MATERIALIZE = "give the model real tensors before saving: its buffers were on the meta device, offloaded or sharded"
_GIVE = "give the model"
_GIVE_MODEL = f"{_GIVE} itself (torch.save(model, …), .pt2, ONNX): its classes or calls tell what these layers are"
_SAYS_BATCH = re.compile(r"(?:^|[^a-z])(?:bn|batch_?norm)|bn\d*$", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")
_NAMES_SHOWN = 3


@rule(id="BN101", severity=Severity.ERROR, question=Question.BUFFERS)
def missing_running_buffers(case: Case) -> Iterator[Hit]:
    """One hit per layer where it is proved; one note per part for the layers that cannot be told."""
    for part in case.subject.parts:
        complete = {layer.metadata_version for layer in part.layers if _keeps_both(layer)}
        for layer in part.layers:
            # A class of another version keeps what it likes, unless its like in this model keep both.
            if layer.metadata_version not in (None, 2, *complete):
                continue
            if missing := _missing(layer):
                yield _hit(part, layer, f"{missing} missing{_in_the_model(case, part, layer)}", _SAVE_ALL)
            elif empty := _without_values(layer):
                yield _hit(part, layer, f"{empty} named but without values", _MATERIALIZE)
        if part.carrier is Carrier.STATE_DICT:
            yield from _bare_layers(case.subject, part)


def _hit(part: Part, layer: NormLayer, message: str, advice: str) -> Hit:
    return Hit(message=message, advice=advice, layer=layer.name, part=part.name, limit="running mean and variance")


def _in_the_model(case: Case, part: Part, layer: NormLayer) -> str:
    """What the model that the checkpoint was loaded into says of the layer."""
    if case.measured is None or case.measured.part != part.name or not case.measured.of(Loaded):
        return ""
    if layer.evidence is not Evidence.CLASS:
        return ""
    kept = "has none" if not _keeps_any(layer) else "lacks a part of them"
    return f": the given model tracks statistics here, the checkpoint {kept}"


def _missing(layer: NormLayer) -> str:
    """What is proved to be missing, as the subject of a sentence."""
    missing = [name for name, tensor in _statistics(layer) if tensor is None]
    concerned = (layer.kind.is_batch or layer.kind is NormKind.UNKNOWN) and layer.tracks_statistics is not False
    if not missing or not concerned:
        return ""
    torn = len(missing) == 1 or layer.num_batches_tracked is not None
    promised = layer.kind.is_batch and (layer.tracks_statistics is True or _is_frozen_class(layer))
    return " and ".join(missing) + (" are" if len(missing) == 2 else " is") if torn or promised else ""


def _statistics(layer: NormLayer) -> tuple[tuple[str, StoredTensor | None], ...]:
    return ("running_mean", layer.running_mean), ("running_var", layer.running_var)


def _is_frozen_class(layer: NormLayer) -> bool:
    return layer.kind is NormKind.FROZEN_BATCH and layer.evidence is Evidence.CLASS


def _without_values(layer: NormLayer) -> str:
    empty = [name for name, tensor in _statistics(layer) if tensor is not None and _is_empty(tensor)]
    return " and ".join(empty) + (" are" if len(empty) == 2 else " is") if empty else ""


def _is_empty(tensor: StoredTensor) -> bool:
    return tensor.values.size == 0 if tensor.values is not None else not tensor.unread


def _bare_layers(subject: Description, part: Part) -> Iterator[Hit]:
    bare = [layer for layer in part.layers if _may_lack_statistics(layer)]
    if not bare:
        return
    siblings = {sibling_key(layer.name) for layer in part.layers if _keeps_both(layer)}
    complete = {sibling_key(layer.name) for layer in part.layers if layer.metadata_version == 2 and _keeps_both(layer)}
    copies = complete_copies(subject, part)
    open_cases, copied = [], []
    for layer in bare:
        if layer.evidence is Evidence.METADATA and sibling_key(layer.name) in complete:
            message = "running_mean and running_var are missing; the same layer of a sibling block has them"
            yield _hit(part, layer, message, _SAVE_ALL)
        elif layer.name in copies:
            copied.append(layer)
        else:
            open_cases.append(layer)
    for other in dict.fromkeys(copies[layer.name] for layer in copied):
        yield _copy(part, [layer for layer in copied if copies[layer.name] == other], other)
    if any(_keeps_any(layer) for layer in part.layers):
        alike = {_family(layer.name) for layer in part.layers if _keeps_both(layer)}
        open_cases = [layer for layer in open_cases if _is_suspect(layer, alike)]
    if open_cases:
        yield _cannot_tell(part, open_cases, siblings)


def _is_suspect(layer: NormLayer, alike: set[str]) -> bool:
    """Whether more than its 1-D weight and bias speaks for batch norm in a model whose other layers have statistics."""
    return layer.evidence is Evidence.METADATA or _says_batch(layer) or _family(layer.name) in alike


def _family(name: str) -> str:
    """Equal for names that differ in numbers alone: `stem.1` and `stem.4` of a Sequential, `norm1` and `norm2`."""
    return _NUMBER.sub("#", strip_wrappers(name))


def _may_lack_statistics(layer: NormLayer) -> bool:
    """Batch norm always has weight and bias or neither, 1-D; version 1 is not batch norm, above 2 another class."""
    affine = (layer.weight, layer.bias)
    return (
        (layer.kind is NormKind.UNKNOWN or layer.kind.is_batch)
        and layer.evidence in (Evidence.METADATA, Evidence.AFFINE)
        and layer.metadata_version in (None, 2)
        and not _keeps_any(layer)
        and all(tensor is not None and len(tensor.shape) == 1 for tensor in affine)
    )


def _keeps_both(layer: NormLayer) -> bool:
    return layer.running_mean is not None and layer.running_var is not None


def _keeps_any(layer: NormLayer) -> bool:
    return any((layer.running_mean, layer.running_var, layer.num_batches_tracked))


def _says_batch(layer: NormLayer) -> bool:
    return _SAYS_BATCH.search(layer.name) is not None


def _copy(part: Part, layers: list[NormLayer], other: str) -> Hit:
    """Parameters alone, averaged or copied, of layers whose statistics stand elsewhere in the file."""
    count, same = _count(layers), other == part.name
    where = "the raw model beside them has" if same else f"{_part_name(other)} has"
    return Hit(
        message=f"parameters alone in {count} ({_listed(part, layers)}): {where} the statistics of these layers",
        advice="load them over the complete model, and measure the statistics again with update_bn if they differ much",
        part=part.name,
        value=len(layers),
        limit=0,
        severity=Severity.NOTE,
        undecided="" if same else f"{_part_name(part.name)} is parameters alone: load it over {_part_name(other)}",
    )


def _part_name(name: str) -> str:
    return f"part {name}" if name else "the unnamed part"


def _cannot_tell(part: Part, layers: list[NormLayer], siblings: set[str]) -> Hit:
    by_class = any(layer.evidence is Evidence.METADATA for layer in layers)
    if not any(_keeps_any(layer) for layer in part.layers):
        reading = "no norm layer has statistics: absorbed, dropped or not batch norm, cannot tell"
    elif by_class:
        reading = "statistics dropped, batch norm without tracking or InstanceNorm, cannot tell"
    elif all(sibling_key(layer.name) in siblings for layer in layers):
        reading = "sibling blocks have statistics there, and no class version says what these are"
    elif not any(map(_says_batch, layers)):
        reading = "layers named alike have statistics, and no class version says what these are"
    else:
        reading = "named like batch norm, and nothing else says so"
    count = _count(layers)
    return Hit(
        message=f"only a weight and a bias in {count} ({_listed(part, layers)}): {reading}",
        advice=_GIVE_MODEL,
        part=part.name,
        value=len(layers),
        limit=0,
        severity=Severity.NOTE,
        confidence=Confidence.MEDIUM if by_class else Confidence.LOW,
        undecided=f"{count} with only a weight and a bias: {_GIVE}",
    )


def _count(layers: list[NormLayer]) -> str:
    return f"{len(layers)} norm layer{'s' if len(layers) > 1 else ''}"


def _listed(part: Part, layers: list[NormLayer]) -> str:
    patterns = compress([layer.name for layer in layers], [layer.name for layer in part.layers])
    shown = ", ".join(label or "the model itself" for label, _ in patterns[:_NAMES_SHOWN])
    return shown + (", …" if len(patterns) > _NAMES_SHOWN else "")
