"""Whom an audit tells where it is: which artifact, which forward, which layer."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class Progress(Protocol):
    """Told while an audit works. The calls may be frequent, so they must be cheap."""

    def artifact(self, path: Path, position: int, total: int) -> None:
        """Before each artifact: its path, its position from 0, and how many there are."""

    def finished(self, code: int) -> None:
        """After each artifact: the exit code that it alone gives."""

    def forward(self, name: str, number: int, expected: int) -> None:
        """Before each forward of a model: what it is for, its number from 1, and how many are expected by now."""

    def layer(self, name: str) -> None:
        """A module or a graph's node begins to run."""


class Silent:
    """Nobody listens."""

    def artifact(self, path: Path, position: int, total: int) -> None:
        """Say nothing."""

    def finished(self, code: int) -> None:
        """Say nothing."""

    def forward(self, name: str, number: int, expected: int) -> None:
        """Say nothing."""

    def layer(self, name: str) -> None:
        """Say nothing."""
