"""Whether batch norms were folded into the convolutions of a graph that has none left, and what supports it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bnaudit.description import NormLayer
from bnaudit.reading.onnx.scope import Site, Value

_BIAS = {
    "Conv": 2,
    "ConvTranspose": 2,
    "com.microsoft.FusedConv": 2,
    "com.microsoft.NhwcFusedConv": 2,
    "QLinearConv": 8,
}
_KEPT = ("Constant", "DequantizeLinear")
_FEWEST = 3
_SHARE = 0.8
_MADE_BY_EXPORTER = re.compile(r"onnx::Conv(?:Transpose)?_\d+")


def folded(sites: list[Site], layers: Sequence[NormLayer], producer: str | None) -> str:
    """The evidence as a sentence, "" when the convolutions do not look like it.

    A bias that an exporter made proves it, be it one and beside norms of other kinds. Without such a name only many
    convolutions with a bias speak for it, and only where there is no norm at all.
    """
    convolutions = [site for site in sites if site.operator in _BIAS]
    biases = [(site, site.input(_BIAS[site.operator])) for site in convolutions]
    with_bias = [(site, bias) for site, bias in biases if bias is not None and _is_stored(bias)]
    made = sum(1 for site, bias in with_bias if _is_made(site, bias.name))
    many = not layers and len(convolutions) >= _FEWEST and len(with_bias) >= _SHARE * len(convolutions)
    if any(layer.kind.is_batch for layer in layers) or not (made or many):
        return ""
    names = f", {made} of them under names that an exporter gives to folded weights" if made else ""
    return (
        f"{len(with_bias)} of {len(convolutions)} convolutions carry a bias{names} and no "
        f"{'batch norm' if layers else 'norm node'} is left"
        f"{f'; producer {producer}' if producer else ''}"
    )


def _is_stored(bias: Value) -> bool:
    """A bias that the graph computes is none: the dynamo exporter expands a zero where a convolution has no bias."""
    kept = bias.origin()
    return kept.tensor is not None or (kept.site is not None and kept.site.operator in _KEPT)


def _is_made(site: Site, bias: str) -> bool:
    """`onnx::Conv_20` of the TorchScript exporter's constant folding, `conv1.weight_bias` of onnxscript's."""
    weight = site.input(1)
    return bool(_MADE_BY_EXPORTER.fullmatch(bias)) or (weight is not None and bias == f"{weight.name}_bias")
