"""Norms that take several nodes: those that compute statistics, and those that are spelled out altogether."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import onnx

from bnaudit.onnx_session.survey import NormNode, Survey

MEAN, VAR = 3, 4
"""Inputs of BatchNormalization."""
_MOST_STEPS = 6
"""Nodes between the square root and the division by it."""


class Body(NamedTuple):
    """The nodes of one norm."""

    numbers: tuple[int, ...]
    """Of all nodes that belong to it, in order."""
    mean: str = ""
    """The value that is the batch's mean, "" where it is not known or the norm is one node."""
    var: str = ""
    """The biased variance."""


def bodies(nodes: Sequence[onnx.NodeProto], survey: Survey) -> dict[int, Body]:
    """Of every norm over the batch that computes its statistics in nodes of their own, by NormNode.position."""
    several = [norm for norm in survey.norms if norm.layer.kind.is_batch and norm.layer.statistics_from_input]
    if not several:
        return {}
    ways = _Ways(nodes)
    return {norm.position: _body(norm, ways) for norm in several if norm.is_batch_norm or norm.axes is not None}


def _body(norm: NormNode, ways: _Ways) -> Body:
    node = ways.nodes[norm.number]
    if norm.is_batch_norm:
        return Body((*ways.between(norm.data, [node.input[MEAN], node.input[VAR]]), norm.number))
    inner = ways.between(norm.data, [node.input[0]])
    numbers = ways.between(norm.data, [ways.division(norm.number, {norm.data, *ways.outputs(inner)})])
    means = [ways.nodes[number].output[0] for number in inner if ways.nodes[number].op_type == "ReduceMean"]
    return Body(tuple(numbers), *(means if len(means) == 2 else ()))


class _Ways:
    """Who produces and who consumes each value of a main graph."""

    def __init__(self, nodes: Sequence[onnx.NodeProto]) -> None:
        self.nodes = nodes
        self._producer = {name: number for number, node in enumerate(nodes) for name in node.output if name}

    def outputs(self, numbers: Iterable[int]) -> list[str]:
        """What these nodes compute."""
        return [name for number in numbers for name in self.nodes[number].output]

    def between(self, start: str, ends: Iterable[str]) -> list[int]:
        """The nodes on the ways from one value to others, in order."""
        reached = {start}
        found = []
        for number in sorted(self._before(ends)):
            node = self.nodes[number]
            if reached.intersection(node.input):
                reached.update(node.output)
                found.append(number)
        return found

    def _before(self, ends: Iterable[str]) -> set[int]:
        """The nodes that the values depend on."""
        found: set[int] = set()
        left = list(ends)
        while left:
            number = self._producer.get(left.pop())
            if number is not None and number not in found:
                found.add(number)
                left += self.nodes[number].input
        return found

    def division(self, root: int, data: set[str]) -> str:
        """The output of the first node behind a square root that combines it with the data; else that of the root."""
        values = {self.nodes[root].output[0]}
        for _ in range(_MOST_STEPS):
            users = [node for node in self.nodes[root + 1 :] if values.intersection(node.input)]
            for node in users:
                if data.intersection(node.input):
                    return str(node.output[0])
            values = {name for node in users for name in node.output}
        return str(self.nodes[root].output[0])
