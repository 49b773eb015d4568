"""Where in a model something is held, for reports of what changed."""

from __future__ import annotations

from typing import NamedTuple


class Held(NamedTuple):
    """A place: how Python would write the way to it, what it is, and whose."""

    path: str
    """`layer1.bn`, `encoder.norms[2]`, `layer1.bn.running_mean`; "" for the model."""
    kind: str
    """buffer, parameter or attribute"""
    owner: str
    """Class of the module that holds it."""
    persistent: bool = False
    transient: frozenset[str] = frozenset()
    """Of a dict of buffers: the names that state_dict() leaves out."""

    def entry(self, suffix: str) -> str:
        """The path of something in it: `.key`, `[0]`."""
        return f"{self.path}{suffix}" if self.path else suffix.removeprefix(".")
