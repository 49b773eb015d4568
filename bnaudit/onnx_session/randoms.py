"""Random operators of a graph: which ran, and whether a dropout really dropped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx

from bnaudit.onnx_session.survey import RandomNode, Survey
from bnaudit.reading.onnx.modes import DROPOUTS
from bnaudit.session import Place, RandomCall


class Randoms:
    """The random nodes of one main graph."""

    def __init__(self, skeleton: onnx.ModelProto, survey: Survey) -> None:
        self._nodes = survey.randoms
        self._switches = {
            random.number: _switches(random, skeleton.graph.node[random.number])
            for random in survey.randoms
            if random.dropout is not None
        }
        self.any = bool(survey.randoms or survey.hidden_randoms)
        """Whether anything may draw."""
        own = {each.name for each in (*skeleton.graph.input, *skeleton.graph.initializer)}
        values = {name for pair in self._switches.values() for name in pair if name}
        self.exposed = tuple(sorted(values - own))
        """Values that have to be seen to know whether a dropout drops."""

    def calls(self, seen: Mapping[str, Any]) -> tuple[RandomCall, ...]:
        """Of one run."""
        return tuple(call for node in self._nodes if (call := self._call(node, seen)) is not None)

    def _call(self, node: RandomNode, seen: Mapping[str, Any]) -> RandomCall | None:
        place = Place(module=node.name, class_name=node.operator, operator=node.operator)
        if node.dropout is None:
            return RandomCall(place=place, is_dropout=False)
        ratio_name, flag_name = self._switches[node.number]
        training = node.dropout.graph_training
        if training is None:
            training = bool(np.asarray(seen.get(flag_name, True)).all())
        ratio = node.dropout.probability
        if ratio is None and ratio_name in seen:
            ratio = float(np.asarray(seen[ratio_name]).reshape(-1)[0])
        if not training or ratio == 0:
            return None
        return RandomCall(place=place, is_dropout=True, probability=ratio)


def _switches(random: RandomNode, node: onnx.NodeProto) -> tuple[str, str]:
    """The values that give ratio and training flag where the graph does not fix them, "" where it does."""
    dropout = random.dropout
    assert dropout is not None
    ratio, flag = DROPOUTS[random.operator]
    names = [node.input[index] if index < len(node.input) else "" for index in (ratio, flag)]
    return (names[0] if dropout.probability is None else "", names[1] if dropout.graph_training is None else "")
