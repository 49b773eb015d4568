"""Which norm layers of two artifacts are the same ones, and how far apart each two are."""

from bnaudit.matching.moving import moves
from bnaudit.matching.pairing import match
from bnaudit.matching.renaming import renamed

__all__ = ["match", "moves", "renamed"]
