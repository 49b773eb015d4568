"""What the names of tensors say: which tensor of which layer this is, and which norm the layer's name speaks of."""

from __future__ import annotations

from functools import lru_cache

from bnaudit.description import NormKind

ROLES = {
    "weight": "weight",
    "bias": "bias",
    "running_mean": "running_mean",
    "running_var": "running_var",
    "num_batches_tracked": "num_batches_tracked",
    # TensorFlow and Keras
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
    # MXNet, Chainer, Flax
    "moving_var": "running_var",
    "avg_mean": "running_mean",
    "avg_var": "running_var",
    "scale": "weight",
}
"""The last part of a tensor's name -> the field of NormLayer that it fills."""

_BLOB_ROLES = {"s": "weight", "b": "bias", "rm": "running_mean", "riv": "running_var"}
"""Caffe2 blobs (`res2_0_branch2a_bn_s`), after a layer name that ends in bn or gn."""

_UNDERSCORED = tuple(f"_{leaf}" for leaf in (*_BLOB_ROLES, *(leaf for leaf in ROLES if leaf != "scale")))


_FLAX = "batch_stats"
_FLAX_ROLES = {"mean": "running_mean", "var": "running_var"}
"""Flax keeps the statistics of `params/BatchNorm_0/scale` under `batch_stats/BatchNorm_0/mean`."""


def layer_and_leaf(name: str) -> tuple[str, str]:
    """`module.bn1.weight` -> (`module.bn1`, `weight`); the leaf is "" when it is no tensor that a norm layer has.

    Understands dotted names (PyTorch), slashed ones (`bn/gamma:0`, TensorFlow) and underscored ones (`bn_gamma`, MXNet;
    `conv1_bn_riv`, Caffe2). A Caffe2 leaf comes back as the PyTorch one.
    """
    if name.startswith(_FLAX):
        layer, _, leaf = name.rpartition(name[len(_FLAX) : len(_FLAX) + 1] or ".")
        if leaf in _FLAX_ROLES:
            return f"params{layer.removeprefix(_FLAX)}", _FLAX_ROLES[leaf]
    layer, _, leaf = name.rpartition(".")
    if leaf in ROLES:
        return layer, leaf
    if "/" in leaf:
        layer, _, leaf = name.partition(":")[0].rpartition("/")
        if leaf in ROLES:
            return layer, leaf
    if name.endswith(_UNDERSCORED):
        return _underscored(name)
    return name, ""


def _underscored(name: str) -> tuple[str, str]:
    layer, _, leaf = name.rpartition("_")
    if leaf in _BLOB_ROLES:
        return (layer, _BLOB_ROLES[leaf]) if layer.endswith(("bn", "gn")) else (name, "")
    leaf = next(role for role in ROLES if name.endswith(f"_{role}"))
    return name[: -len(leaf) - 1], leaf


def is_blob(name: str) -> bool:
    """Whether a tensor's name is Caffe2's (`conv1_bn_rm`), whose batch norms are frozen ones."""
    return name.endswith(("_rm", "_riv"))


_SPOKEN = (
    ("layernorm", NormKind.LAYER),
    ("layer_norm", NormKind.LAYER),
    ("rmsnorm", NormKind.RMS),
    ("rms_norm", NormKind.RMS),
    ("groupnorm", NormKind.GROUP),
    ("group_norm", NormKind.GROUP),
    ("instancenorm", NormKind.INSTANCE),
    ("instance_norm", NormKind.INSTANCE),
)


@lru_cache(maxsize=4096)
def spoken_kind(segment: str) -> NormKind | None:
    """The norm that one segment of a layer's name speaks of.

    UNKNOWN: a norm, but the name does not settle which (`norm1`; `bn`, because a name is no proof of batch norm; and
    `grn`, ConvNeXt V2's global response norm, which is of no other kind). None: nothing of the kind (`prelu`, `fc`).
    """
    lowered = segment.lower()
    for words, kind in _SPOKEN:
        if words in lowered:
            return kind
    tokens = {token.rstrip("0123456789") for token in lowered.replace("-", "_").split("_")}
    if "ln" in tokens:
        return NormKind.LAYER
    if "gn" in tokens:
        return NormKind.GROUP
    if "norm" in lowered or "bn" in tokens or "grn" in tokens or lowered.rstrip("0123456789_").endswith("bn"):
        return NormKind.UNKNOWN
    return None


def segments(layer: str) -> tuple[str, str]:
    """The last two segments of a layer's name, the last one first; "" where there is none."""
    if "/" in layer:
        layer = layer.replace("/", ".")
    parent, _, last = layer.rpartition(".")
    return last, parent.rpartition(".")[2]
