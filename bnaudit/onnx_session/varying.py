"""A graph with a Variation in place, as a session of a copy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import onnx

from bnaudit.onnx_session.changes import altered, dropping, norm_called, trained
from bnaudit.onnx_session.copies import OLDEST_OPSET, Copy
from bnaudit.onnx_session.engines import Engine, Engines
from bnaudit.onnx_session.rounding import round_all
from bnaudit.onnx_session.survey import NormNode, RandomNode, Survey
from bnaudit.session import NotPossibleError
from bnaudit.variation import Variation


class ChangedEngines:
    """Engines of an edited copy, without optimizations in all its forms."""

    def __init__(self, engines: Engines, skeleton: onnx.ModelProto) -> None:
        self.name = engines.name
        self.optimizes = engines.optimizes
        self.any_order = engines.any_order
        self.remarks = engines.remarks
        self.skeleton = skeleton
        self._engines = engines

    @property
    def path(self) -> Path:
        """The file of the unchanged graph."""
        return self._engines.path

    def deciding(self) -> Engine:
        """The copy as it is."""
        return self._engines.edited(self.skeleton)

    def production(self) -> Engine:
        """The same."""
        return self.deciding()

    def edited(self, model: onnx.ModelProto) -> Engine:
        """A copy of the copy."""
        return self._engines.edited(model)

    def seed(self, seed: int) -> None:
        """What random operators begin with."""
        self._engines.seed(seed)


class Varied(NamedTuple):
    """What a session of the changed graph is made of."""

    engines: ChangedEngines
    survey: Survey


def varied(engines: Engines, survey: Survey, variation: Variation) -> Varied:
    """The copy with a variation in it. Raises NotPossibleError.

    Rounding comes before training forms, which compute with what a norm then receives.
    """
    copy = Copy(engines.skeleton)
    if copy.opset < OLDEST_OPSET:
        raise NotPossibleError(
            f"a graph of opset {copy.opset} cannot be changed",
            remedy=f"convert it to opset {OLDEST_OPSET} or later with onnx.version_converter",
        )
    changed = {name: altered(copy, norm_called(survey, name), each) for name, each in variation.layers.items()}
    dropouts = {each.number: each for each in dropping(copy)} if variation.drops else {}
    if variation.dtype:
        round_all(copy, variation.dtype)
    trains = [name for name, each in variation.layers.items() if each.training]
    changed |= {name: trained(copy, changed[name]) for name in trains}
    model = copy.finish(in_order=not ((survey.randoms or dropouts) and engines.any_order))
    places = _places(copy, model)
    norms = tuple(_moved(changed.get(norm.layer.name, norm), places) for norm in survey.norms)
    kept = [node for node in survey.randoms if node.number not in dropouts]
    randoms = [node._replace(number=places[node.number]) for node in (*kept, *dropouts.values())]
    found = survey._replace(norms=norms, randoms=tuple(sorted(randoms, key=_number)))
    return Varied(ChangedEngines(engines, model), found)


def _places(copy: Copy, model: onnx.ModelProto) -> Mapping[int, int]:
    """Where the nodes of the graph stand in the copy, by their numbers."""
    where = {name: place for place, node in enumerate(model.graph.node) for name in node.output if name}
    return {
        number: where[next(name for name in node.output if name)]
        for number, node in enumerate(copy.originals)
        if any(node.output)
    }


def _moved(norm: NormNode, places: Mapping[int, int]) -> NormNode:
    return norm._replace(number=places[norm.number])


def _number(node: RandomNode) -> int:
    return node.number
