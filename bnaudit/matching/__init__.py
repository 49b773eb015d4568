"""Which norm layers of two artifacts are the same ones, and how far apart each two are.

The names are loaded when they are asked for: rules import from here at every start, and most commands compare nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bnaudit.plugins import load

if TYPE_CHECKING:
    from bnaudit.matching.moving import moves
    from bnaudit.matching.pairing import match
    from bnaudit.matching.renaming import renamed

__all__ = ["match", "moves", "renamed"]

_HOMES = {"match": "pairing", "moves": "moving", "renamed": "renaming"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(load(__name__, _HOMES[name]), name)
