"""From a walked ONNX model to a Description."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bnaudit.description import (
    Artifact,
    Carrier,
    Description,
    Gap,
    GraphInput,
    ModeDependent,
    NormLayer,
    Part,
)
from bnaudit.reading.byte_source import ByteSource, MemorySource
from bnaudit.reading.checkpoints.tally import Tally
from bnaudit.reading.onnx.analysis import Analysis
from bnaudit.reading.onnx.batch_norms import BATCH_NORMS, batch_norm
from bnaudit.reading.onnx.dtypes import is_floating
from bnaudit.reading.onnx.external import ExternalFiles
from bnaudit.reading.onnx.folded import folded
from bnaudit.reading.onnx.graph import Graph
from bnaudit.reading.onnx.group_norms import group_norm
from bnaudit.reading.onnx.model import read_model
from bnaudit.reading.onnx.modes import DROPOUTS, dropout
from bnaudit.reading.onnx.other_norms import AXIS_OPERATORS, OPERATORS, axis_norm, other_norm
from bnaudit.reading.onnx.scope import Scope, Site
from bnaudit.reading.onnx.spelled_out import ROOTS, spelled_out
from bnaudit.reading.onnx.tensor import OnnxTensor, SparseTensor

_SMALL_FILE = 1 << 20
_STATISTICS = (".running_mean", ".running_var")

Recognizer = Callable[[Site, Analysis], NormLayer | None]

_RECOGNIZERS: dict[str, Recognizer] = {
    **dict.fromkeys(BATCH_NORMS, batch_norm),
    **dict.fromkeys(OPERATORS, lambda site, analysis: group_norm(site, analysis) or other_norm(site, analysis)),
    **dict.fromkeys(AXIS_OPERATORS, axis_norm),
    **dict.fromkeys(ROOTS, spelled_out),
}


def describe(source: ByteSource, path: str) -> Description:
    """Walk one model and describe its norm layers. Raises UnreadableError when it is corrupt or beyond the caps."""
    with ExternalFiles(source) as files:
        model = read_model(at_hand(source), files)
        analysis = Analysis(Scope(model, model.graph))
        tensors = all_tensors(analysis)
        part = _part(analysis, tensors)
        locations = {tensor.external.location for tensor in tensors if tensor.external is not None}
        artifact = Artifact(
            path=path,
            format="ONNX",
            size=source.size + sum(files.size(location) for location in locations),
            # what was read twice, looking and describing, counts once
            bytes_read=min(source.bytes_read, source.size) + files.bytes_read,
            producer=model.producer,
        )
        gaps = (*analysis.parameters.gaps, *_unexplained(analysis, part))
        return Description(artifact=artifact, parts=(part,), gaps=gaps)


def _unexplained(analysis: Analysis, part: Part) -> Iterator[Gap]:
    """Running statistics that something computes with outside of the norm layers: a frozen norm that is written out."""
    known = {layer.name for layer in part.layers} | {tensor.name for layer in part.layers for tensor in layer.tensors}
    names = [name for name in analysis.main.body.initializers if name.endswith(_STATISTICS)]
    stored = [name for name in names if known.isdisjoint((name, name.rpartition(".")[0]))]
    if stored:
        read = {name for site in analysis.sites if site.scope is analysis.main for name in site.node.inputs}
        unknown = [name for name in stored if name in read]
        if unknown:
            more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
            why = "running statistics that no known norm operator reads: a norm written out in arithmetic"
            yield Gap(where=unknown[0] + more, why=why, hides_norms=True)


def at_hand(source: ByteSource) -> ByteSource:
    """A small file is read whole, once: its nodes, attributes and parameters lie too close together to be apart."""
    if source.size > min(_SMALL_FILE, source.caps.header_bytes):
        return source
    return MemorySource(source.read(0, source.size), source.name, source)


def _part(analysis: Analysis, tensors: list[OnnxTensor]) -> Part:
    layers: list[NormLayer] = []
    mode_dependent: list[ModeDependent] = []
    for _, layer in recognized(analysis):
        if isinstance(layer, NormLayer):
            layers.append(layer)
        else:
            mode_dependent.append(layer)
    return Part(
        name="",
        carrier=Carrier.GRAPH,
        layers=tuple(layers),
        mode_dependent=tuple(mode_dependent),
        tensors=len(tensors),
        floating_dtypes=tuple(
            sorted({tensor.dtype for tensor in tensors if is_floating(tensor.dtype) and tensor.shape})
        ),
        inputs=_inputs(analysis.main.body),
        operators=len(analysis.sites),
        folded=folded(analysis.sites, layers, analysis.main.model.producer),
    )


def recognized(analysis: Analysis) -> Iterator[tuple[Site, NormLayer | ModeDependent]]:
    """Norm layers and dropouts in execution order, each with the node that it was recognized by.

    Names depend on what was named before: only a whole walk gives the ones of the Description.
    """
    source = analysis.main.model.source.wire.source
    tally = Tally(source.caps, source.name)
    for site in analysis.sites:
        recognize = _RECOGNIZERS.get(site.operator)
        if recognize is not None:
            layer = recognize(site, analysis)
            if layer is not None:
                tally.layer()
                yield site, layer
        elif site.operator in DROPOUTS:
            yield site, dropout(site, analysis)


def _inputs(graph: Graph) -> tuple[GraphInput, ...]:
    """What whoever runs the model gives: early files list their initializers in the graph's inputs too."""
    declared = [info for info in graph.inputs if info.name not in graph.initializers]
    return tuple(GraphInput(name=info.name, dtype=info.dtype, shape=info.shape) for info in declared)


def all_tensors(analysis: Analysis) -> list[OnnxTensor]:
    """Initializers and the tensors of Constant nodes, each once, wherever they stand."""
    found: dict[object, OnnxTensor] = {}
    for scope in {site.scope: None for site in analysis.sites} | {analysis.main: None}:
        for tensor in scope.body.initializers.values():
            plain = tensor.values if isinstance(tensor, SparseTensor) else tensor
            found[plain.identity] = plain
    for site in analysis.sites:
        attribute = site.attribute("value") if site.operator == "Constant" else None
        if attribute is not None and attribute.tensor is not None:
            found[attribute.tensor.identity] = attribute.tensor
    return list(found.values())
