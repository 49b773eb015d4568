"""How much of one file is looked at: a small pickle can hold a million objects or name one layer a million times."""

from __future__ import annotations

from bnaudit.caps import Caps
from bnaudit.errors import CapExceededError

OBJECT, TENSOR, MODULE, PART = 2, 2, 4, 100
"""How many containers an object of a class, a tensor, a module and a whole model count for."""


class Tally:
    """Counts over one file, whatever it is made of."""

    __slots__ = ("_caps", "_layers", "_objects", "_where")

    def __init__(self, caps: Caps | None = None, where: str = "") -> None:
        self._caps = caps if caps is not None else Caps()
        self._where = where
        self._objects = 0
        self._layers = 0

    def objects(self, number: int = 1) -> None:
        """Count objects that are looked into. Raises CapExceededError above `caps.pickle_objects`."""
        self._objects += number
        if self._objects > self._caps.pickle_objects:
            what = f"more than {self._caps.pickle_objects} objects that may hold a model"
            raise CapExceededError(what, where=self._where, cap="pickle_objects")

    def layer(self) -> None:
        """Count a norm layer. Raises CapExceededError above `caps.norm_layers`."""
        self._layers += 1
        if self._layers > self._caps.norm_layers:
            what = f"more than {self._caps.norm_layers} norm layers"
            raise CapExceededError(what, where=self._where, cap="norm_layers")
