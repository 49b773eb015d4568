"""Walks the registered modules of a pickled model: what eval(), state_dict() and to() reach."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bnaudit.description import Gap
from bnaudit.reading.checkpoints.tally import MODULE, Tally
from bnaudit.reading.modules.objects import PickledModule, as_module, names_quantized
from bnaudit.reading.pickles.stand_ins import Call

MOST_NAMING = 16 << 20
"""Characters of all module paths together; 100,000 modules with paths of 100 characters need two thirds of it."""
_SCRIPTED = ("ScriptModule", "unpackage_script_module")


class Located(NamedTuple):
    """A module and its dotted path, "" for the root."""

    path: str
    module: PickledModule


class Walker:
    """Walks one model and what hangs on it. Modules met twice are listed once, under their first name.

    `seen` holds the identities of all modules listed so far; `gaps` what could not be looked into.
    """

    __slots__ = ("_naming", "_tally", "gaps", "seen")

    def __init__(self, seen: Iterable[int] = (), tally: Tally | None = None) -> None:
        self.seen = set(seen)
        self._tally = tally if tally is not None else Tally()
        self.gaps: list[Gap] = []
        self._naming = 0

    def walk(self, path: str, root: PickledModule) -> list[Located]:
        """The root and the modules registered below it in the order of `named_modules()`.

        Raises CapExceededError when there are more than the tally allows.
        """
        found: list[Located] = []
        waiting: list[Located] = [Located(path, root)]
        while waiting:
            located = waiting.pop()
            if id(located.module.call) in self.seen:
                self._tally.objects()
                continue
            self._tally.objects(MODULE + located.module.entries)
            if not self.affords(located.path):
                break
            self.seen.add(id(located.module.call))
            found.append(located)
            waiting.extend(reversed(self._children(located)))
        return found

    def affords(self, path: str) -> bool:
        """Count the characters of a path; False, and a gap once, when all together are too many."""
        within = self._naming <= MOST_NAMING
        self._naming += len(path) + 1
        if within and self._naming > MOST_NAMING:
            self.gaps.append(Gap(where=path[:80], why="the names of its modules are too long to be listed"))
        return self._naming <= MOST_NAMING

    def _children(self, parent: Located) -> list[Located]:
        children = []
        for key, value in parent.module.section("_modules"):
            path = join(parent.path, key if isinstance(key, str) else "?")
            child = as_module(value)
            if child is not None:
                children.append(Located(path, child))
            elif value is not None:
                self.gaps.append(_unopened(path, value))
        return children


def join(path: str, key: str) -> str:
    """`layer1` and `bn` -> `layer1.bn`."""
    return f"{path}.{key}" if path else key


def _unopened(path: str, value: object) -> Gap:
    name = value.callee_name if isinstance(value, Call) else ""
    if name.endswith(_SCRIPTED):
        return Gap(where=path, why="a TorchScript module inside the pickle was not opened")
    why = f"a module of {name or 'an unknown class'} does not store its state as torch.nn.Module does"
    # Quantized convolutions keep a tuple of numbers and packed weights; the norms among such classes are plain modules.
    return Gap(where=path, why=why, hides_norms=not names_quantized(name))
