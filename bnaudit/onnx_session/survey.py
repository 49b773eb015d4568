"""What is in a graph before it runs: its norm nodes by the names of the Description, and what draws random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bnaudit.caps import Caps
from bnaudit.description import ModeDependent, NormLayer, Part
from bnaudit.errors import UnreadableError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.onnx.analysis import Analysis
from bnaudit.reading.onnx.batch_norms import BATCH_NORMS, is_training_form
from bnaudit.reading.onnx.describe import all_tensors, recognized
from bnaudit.reading.onnx.external import ExternalFiles
from bnaudit.reading.onnx.model import read_model
from bnaudit.reading.onnx.scope import Scope, Site
from bnaudit.reading.onnx.spelled_out import ROOTS, Spread, spread_before

RANDOM = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"}
_ANY = Caps(graph_nodes=1 << 40, norm_layers=1 << 40, header_bytes=1 << 40, value_bytes=1 << 40, tensor_bytes=1 << 40)
"""The file was read within the user's caps before."""


class NormNode(NamedTuple):
    """A norm layer of the main graph."""

    position: int
    """Among the norm nodes of the main graph, in execution order: NormCall.index."""
    number: int
    """The node that it was recognized by, among the nodes of the main graph."""
    layer: NormLayer
    operator: str
    """Type of the node, with its domain unless that is ONNX's own."""
    opset: int
    data: str
    """Name of the value that is normalized."""
    uses_batch: bool
    """Whether the statistics are computed from that value."""
    axes: tuple[int, ...] | None = None
    """Of a spelled-out norm: the axes that it reduces, () for all of them."""

    @property
    def is_batch_norm(self) -> bool:
        """A BatchNormalization node over samples, not over a view of each."""
        return self.operator == "BatchNormalization" and self.layer.kind.is_batch


class RandomNode(NamedTuple):
    """A node of the main graph that draws random numbers, or may drop."""

    number: int
    name: str
    operator: str
    dropout: ModeDependent | None
    """For a dropout, what the graph fixes of it."""


class Survey(NamedTuple):
    """The nodes to watch, and what cannot be watched."""

    norms: tuple[NormNode, ...]
    randoms: tuple[RandomNode, ...]
    hidden_norms: tuple[str, ...]
    """Norm layers inside branches, loops and functions."""
    hidden_randoms: tuple[str, ...]
    """Random operators there."""
    external: bool
    """Whether weights stand in other files."""


def survey(path: Path, part: Part) -> Survey:
    """Walk the file again, as it was walked to describe it.

    Raises UnreadableError, also when a file with external data is missing or outside the model's folder.
    """
    with ByteSource.open(path, _ANY) as source, ExternalFiles(source) as files:
        model = read_model(source, files)
        analysis = Analysis(Scope(model, model.graph))
        found = tuple(recognized(analysis))
        locations = {tensor.external.location for tensor in all_tensors(analysis) if tensor.external is not None}
        for location in sorted(locations):
            files.path(location)
        norms = _named(found, part)
        here = [pair for pair in norms if _data(pair[0], analysis) is not None]
        hidden = [layer.name for site, layer in norms if _data(site, analysis) is None]
        randoms = _randoms(analysis, found)
        return Survey(
            norms=tuple(_norm_node(index, *pair, analysis) for index, pair in enumerate(here)),
            randoms=tuple(node for site, node in randoms if site.scope is analysis.main),
            hidden_norms=tuple(hidden),
            hidden_randoms=tuple(node.name for site, node in randoms if site.scope is not analysis.main),
            external=bool(locations),
        )


def _named(found: Sequence[tuple[Site, NormLayer | ModeDependent]], part: Part) -> list[tuple[Site, NormLayer]]:
    """The sites with the layers of the Description: the same walk gives them in the same order."""
    sites = [site for site, layer in found if isinstance(layer, NormLayer)]
    if len(sites) != len(part.layers):
        raise UnreadableError("the file is not the one that was described", remedy="run the audit again")
    return list(zip(sites, part.layers, strict=True))


def _data(site: Site, analysis: Analysis) -> str | None:
    """The name in the main graph of what a norm node normalizes; None: it is computed elsewhere."""
    if site.scope is not analysis.main:
        return None
    spread = _spread(site, analysis)
    if spread is None:
        return site.node.inputs[0]
    return spread.data.name if spread.data.scope is analysis.main else None


def _spread(site: Site, analysis: Analysis) -> Spread | None:
    argument = site.input(0)
    return spread_before(argument, analysis) if argument is not None and site.operator in ROOTS else None


def _norm_node(position: int, site: Site, layer: NormLayer, analysis: Analysis) -> NormNode:
    spread = _spread(site, analysis)
    uses_batch = True
    if site.operator in BATCH_NORMS:
        uses_batch = is_training_form(site) or layer.statistics_from_input is True
    return NormNode(
        position=position,
        number=site.number,
        layer=layer,
        operator=site.operator,
        opset=site.opset,
        data=_data(site, analysis) or "",
        uses_batch=uses_batch,
        axes=None if spread is None else tuple(spread.axes),
    )


def _randoms(
    analysis: Analysis, found: Sequence[tuple[Site, NormLayer | ModeDependent]]
) -> list[tuple[Site, RandomNode]]:
    dropouts = {site: layer for site, layer in found if isinstance(layer, ModeDependent)}
    nodes = []
    for site in analysis.sites:
        dropout = dropouts.get(site)
        if site.operator in RANDOM or (dropout is not None and dropout.graph_training is not False):
            name = dropout.name if dropout is not None else node_name(site)
            nodes.append((site, RandomNode(site.number, name, site.operator, dropout)))
    return nodes


def node_name(site: Site) -> str:
    """The node's name, else that of its first output."""
    return site.node.name or next((name for name in site.node.outputs if name), site.label)
