"""From named tensors to a Part: groups them by layer, and reads those of the norm layers and no others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bnaudit.description import Carrier, Evidence, Gap, NormKind, NormLayer, Part, StoredTensor
from bnaudit.errors import UnreadableError
from bnaudit.reading.checkpoints.norm_evidence import Group, Verdict, judge
from bnaudit.reading.checkpoints.norm_names import ROLES, layer_and_leaf
from bnaudit.reading.checkpoints.tally import Tally
from bnaudit.reading.tensors.tensor_refs import TensorRef, stored

_MOST_GAPS = 20
_QUANTIZED = ("qint8", "quint8")
_CONVOLUTION = 3
"""Fewest dimensions of its weight."""

Entries = Sequence[tuple[str, TensorRef]]


def describe_state_dict(
    name: str, entries: Entries, versions: Mapping[str, int] | None, tally: Tally | None = None
) -> tuple[Part, tuple[Gap, ...]]:
    """The part called `name` that holds these tensors, and what of its norm layers could not be read.

    `versions` are the class versions of the state dict's `_metadata` by layer name, None when it has none.
    How norm layers are told from others: see norm_evidence. Raises CapExceededError when there are more of them than
    the tally allows.
    """
    tally = tally if tally is not None else Tally()
    gaps: list[Gap] = []
    groups, others = _group(entries)
    known = versions or {}
    layers = []
    for layer, group in groups.items():
        verdict = judge(layer, group, known.get(layer), groups, layer in others)
        if verdict is not None:
            tally.layer()
            layers.append(_layer(layer, group, verdict, known.get(layer), gaps))
    wrappers, averaged_over = _wrappers(entries)
    part = Part(
        name=name,
        carrier=Carrier.STATE_DICT,
        layers=tuple(layers),
        wrappers=wrappers,
        averaged_over=averaged_over,
        has_metadata=versions is not None,
        tensors=len(entries),
        floating_dtypes=tuple(sorted({ref.dtype for _, ref in entries if "float" in ref.dtype})),
        folded="" if any(layer.running_var for layer in layers) else _folded(entries),
    )
    return part, _shortened(gaps, name)


def _folded(entries: Entries) -> str:
    """PyTorch's static quantization fuses norms into convolutions first; those that are left stay norms."""
    count = sum(ref.dtype in _QUANTIZED and len(ref.shape) >= _CONVOLUTION for _, ref in entries)
    convolutions = "the one convolution is" if count == 1 else f"{count} convolutions are"
    return f"{convolutions} quantized, before which norms are folded" if count else ""


def _group(entries: Entries) -> tuple[dict[str, Group], set[str]]:
    """The tensors that norms have by layer, and the layers that have tensors of other names, too."""
    groups: dict[str, Group] = {}
    others: set[str] = set()
    for name, ref in entries:
        layer, leaf = layer_and_leaf(name)
        if not leaf:
            owner, _, own = name.rpartition(".")
            # Pruning and weight norm write `weight_mask`, `bias_orig` beside the tensors of any layer.
            if not own.startswith(("weight", "bias")):
                others.add(owner)
            continue
        group = groups.setdefault(layer, {})
        # A fused convolution of quantization-aware training has its own weight beside the norm's gamma.
        if ROLES[leaf] not in group or leaf in ("gamma", "beta"):
            group[ROLES[leaf]] = (name, ref)
    return groups, others


def _layer(name: str, group: Group, verdict: Verdict, version: int | None, gaps: list[Gap]) -> NormLayer:
    kind, evidence = verdict
    tensors = {role: _read(*group[role], gaps) for role in group if _belongs(role, group)}
    counts = evidence is Evidence.STATISTICS and kind is NormKind.BATCH
    return NormLayer(
        name=name,
        kind=kind,
        evidence=evidence,
        metadata_version=version,
        affine=True if "weight" in tensors else None,
        tracks_statistics=True if counts else None,
        weight=tensors.get("weight"),
        bias=tensors.get("bias"),
        running_mean=tensors.get("running_mean"),
        running_var=tensors.get("running_var"),
        num_batches_tracked=tensors.get("num_batches_tracked"),
    )


def _belongs(role: str, group: Group) -> bool:
    """Affine parameters are 1-D or shaped like the statistics; another weight is that of a fused convolution."""
    shape = group[role][1].shape
    return role not in ("weight", "bias") or len(shape) == 1 or shape in _statistics_shapes(group)


def _statistics_shapes(group: Group) -> list[tuple[int, ...]]:
    return [group[role][1].shape for role in ("running_mean", "running_var") if role in group]


def _read(name: str, ref: TensorRef, gaps: list[Gap]) -> StoredTensor:
    if not ref.is_parameter:
        ref.requires_grad = None  # state_dict() detaches: its False says nothing about the parameter that it was
    tensor, why = stored(name, ref)
    if why:
        gaps.append(Gap(where=name, why=why, hides_norms=False))
    return tensor


def _shortened(gaps: list[Gap], name: str) -> tuple[Gap, ...]:
    if len(gaps) <= _MOST_GAPS:
        return tuple(gaps)
    rest = Gap(where=name, why=f"{len(gaps) - _MOST_GAPS} more tensors were not read", hides_norms=False)
    return (*gaps[:_MOST_GAPS], rest)


def _wrappers(entries: Entries) -> tuple[tuple[str, ...], int | None]:
    """The wrappers that every name stands behind, outermost first, and how many models were averaged."""
    names = [name for name, _ in entries if name != "n_averaged"]
    counter = next((ref for name, ref in entries if name == "n_averaged"), None)
    found: list[str] = []
    prefix = ""
    while names:
        wrapper = next((key for key in ("module.", "_orig_mod.") if names[0].startswith(key, len(prefix))), None)
        if wrapper is None or not all(name.startswith(prefix + wrapper) for name in names):
            break
        averaging = counter is not None and not found
        kind = "OptimizedModule" if wrapper == "_orig_mod." else "AveragedModel" if averaging else "DataParallel"
        found.append(kind)
        prefix += wrapper
    return tuple(found), _count(counter) if "AveragedModel" in found and counter is not None else None


def _count(counter: TensorRef) -> int | None:
    if counter.absence or any(size != 1 for size in counter.shape) or "int" not in counter.dtype:
        return None
    try:
        return int(counter.load().reshape(-1)[0])
    except UnreadableError:
        return None
