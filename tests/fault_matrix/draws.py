"""Measured statistics at half and at twice their limits, in seeded draws of layers and inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fault_matrix.values import Drawn

DRAWS: dict[str, Callable[[], Iterable[Drawn]]] = {}
"""Name → draws them all."""
