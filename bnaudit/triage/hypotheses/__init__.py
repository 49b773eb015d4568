"""One file per kind of exact account of what happened. A plugin is a module with a `GENERATOR`:

    GENERATOR = Generator(name="lost-buffers", singles=singles, searches=searches)

It looks at a Situation, which holds nothing that was observed, and proposes hypotheses that can be replayed. Only those
that change something are proposed: an epsilon that the model already has is no hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple, TypeAlias

from bnaudit.diagnosis import Hypothesis
from bnaudit.plugins import load, names
from bnaudit.triage.situation import Situation


class Untried(NamedTuple):
    """A hypothesis that cannot be replayed."""

    claim: str
    needs: str


class LayerSearch(NamedTuple):
    """A fault that any set of layers may have."""

    name: str
    layers: tuple[str, ...]
    """Those that it would change."""
    make: Callable[[tuple[str, ...]], Hypothesis]
    stages: tuple[tuple[str, ...], ...] = ()
    """Sets that are likely to have it together."""


class Solvable(NamedTuple):
    """A fault with one unknown positive number."""

    name: str
    make: Callable[[float], Hypothesis]
    low: float
    high: float


Proposed: TypeAlias = "Hypothesis | Untried"


def _none(situation: Situation) -> Iterator[Hypothesis]:
    yield from ()


def _no_search(situation: Situation) -> Iterator[LayerSearch]:
    yield from ()


def _nothing_solvable(situation: Situation) -> Iterator[Solvable]:
    yield from ()


class Generator(NamedTuple):
    """The contract of a hypothesis plugin."""

    name: str
    """As `only` selects it; the file's name with hyphens."""
    singles: Callable[[Situation], Iterator[Proposed]]
    """About the whole model or its inputs: few."""
    of_layers: Callable[[Situation], Iterator[Hypothesis]] = _none
    """About one or two layers each: as many as there are layers."""
    searches: Callable[[Situation], Iterator[LayerSearch]] = _no_search
    solvable: Callable[[Situation], Iterator[Solvable]] = _nothing_solvable


def generators(only: Collection[str] = ()) -> tuple[Generator, ...]:
    """All generators by file name, or those of these names; eval as saved is always among them."""
    found: list[Generator] = [load(__name__, name).GENERATOR for name in names(__name__)]
    return tuple(each for each in found if not only or each.name in {"eval-as-saved", *only})
