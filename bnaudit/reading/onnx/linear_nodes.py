"""The convolutions and linear layers of an ONNX graph, with the norms that stand directly before and after them."""

from __future__ import annotations

from collections.abc import Mapping

from bnaudit.comparison import LinearLayer
from bnaudit.description import NormLayer
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.checkpoints.linear_tensors import placed
from bnaudit.reading.onnx.analysis import Analysis
from bnaudit.reading.onnx.consumers import PASSING, before, other_operand
from bnaudit.reading.onnx.describe import at_hand, recognized
from bnaudit.reading.onnx.external import ExternalFiles
from bnaudit.reading.onnx.model import read_model
from bnaudit.reading.onnx.names import LayerNames
from bnaudit.reading.onnx.parameters import stored_tensor
from bnaudit.reading.onnx.scope import Scope, Site, Value
from bnaudit.reading.onnx.tensor import OnnxTensor, SparseTensor

_CONVOLUTIONS = {"Conv": "conv", "ConvTranspose": "transposed conv", "com.microsoft.FusedConv": "conv"}
_PRODUCTS = ("Gemm", "MatMul")
_LONGEST_CHAIN = 8

Tensor = OnnxTensor | SparseTensor


def linear_nodes(source: ByteSource, files: ExternalFiles) -> list[LinearLayer]:
    """The layers in execution order; no weight is read. Raises UnreadableError when the graph is corrupt."""
    model = read_model(at_hand(source), files)
    analysis = Analysis(Scope(model, model.graph))
    norms = {site: layer.name for site, layer in recognized(analysis) if isinstance(layer, NormLayer)}
    names = LayerNames()
    marks: list[LinearLayer | str] = []
    for site in analysis.sites:
        if site in norms:
            marks.append(norms[site])
        elif site.operator in _CONVOLUTIONS or site.operator in _PRODUCTS:
            layer = _Reader(analysis, norms, names).layer(site)
            if layer is not None:
                marks.append(layer)
    return list(placed(marks))


class _Reader:
    """Makes layers of the nodes of one graph."""

    __slots__ = ("_analysis", "_names", "_norms")

    def __init__(self, analysis: Analysis, norms: Mapping[Site, str], names: LayerNames) -> None:
        self._analysis = analysis
        self._norms = norms
        self._names = names

    def layer(self, site: Site) -> LinearLayer | None:
        """The layer; None when its weight is no stored tensor, or it is scaled on the way."""
        weight, transposed = _weight(site.input(1))
        if weight is None or len(weight.shape) < 2 or "float" not in weight.dtype:
            return None
        if site.operator == "Gemm" and (site.real("alpha", 1.0), site.real("beta", 1.0)) != (1.0, 1.0):
            return None
        if site.operator not in _CONVOLUTIONS and len(weight.shape) != 2:
            return None
        added, bias = self._bias(site)
        return LinearLayer(
            name=self._names.name(site, [tensor.name for tensor in (weight, bias) if tensor is not None]),
            operator=_CONVOLUTIONS.get(site.operator, "linear"),
            weight=weight,
            bias=bias,
            groups=site.integer("group", 1),
            output_last=_output_last(site, transposed),
            padded=_padded(site),
            norm_after=self._after(added),
            norm_before=self._before(site),
        )

    def _bias(self, site: Site) -> tuple[Site, Tensor | None]:
        """The node whose output is the layer's, and the bias; a product has its own in the addition behind it."""
        if site.operator != "MatMul":
            bias, _ = _weight(site.input(2))
            return site, bias
        output = site.output()
        adding = self._analysis.consumers.only(output)
        if adding is None or adding.operator != "Add" or output is None:
            return site, None
        bias, _ = _weight(other_operand(adding, output))
        return (adding, bias) if bias is not None and len(bias.shape) == 1 else (site, None)

    def _after(self, site: Site) -> str | None:
        """The norm that alone takes the site's output."""
        for _ in range(_LONGEST_CHAIN):
            output = site.output()
            if output is None or (site.scope.caller is None and output.name in site.scope.body.outputs):
                return None
            consumer = self._analysis.consumers.only(output)
            if consumer is None or consumer.input(0) is not output:
                return None
            if consumer in self._norms:
                return self._norms[consumer]
            if consumer.operator not in PASSING:
                return None
            site = consumer
        return None

    def _before(self, site: Site) -> str | None:
        value = before(site.input(0), PASSING)
        if value is None or value.site is None or self._analysis.consumers.only(value) is None:
            return None
        return self._norms.get(value.site)


def _weight(value: Value | None) -> tuple[Tensor | None, bool]:
    """The stored tensor that a value is, and whether a node in between transposes it."""
    transposed = False
    for _ in range(_LONGEST_CHAIN):
        if value is None:
            return None, transposed
        tensor = stored_tensor(value)
        site = value.origin().site
        if tensor is not None or site is None:
            return tensor, transposed
        if site.operator == "Transpose" and site.integers("perm") in (None, [1, 0]):
            transposed = not transposed
        elif site.operator not in PASSING:
            return None, transposed
        value = site.input(0)
    return None, transposed


def _output_last(site: Site, transposed: bool) -> bool:
    """Whether the tensor, as it is stored, is (in, out)."""
    if site.operator in _CONVOLUTIONS:
        return False
    return (site.operator == "MatMul" or site.integer("transB", 0) == 0) != transposed


def _padded(site: Site) -> bool:
    if site.operator not in _CONVOLUTIONS:
        return False
    automatic = site.attribute("auto_pad")
    return any(site.integers("pads") or ()) or (automatic is not None and (automatic.text or "").startswith("SAME"))
