"""Where the interpreter is: the variables of one call and the way that led to it."""

from __future__ import annotations

from bnaudit.reading.torchscript.objects import ScriptObject
from bnaudit.reading.torchscript.values import Value

Branches = tuple[tuple[int, bool], ...]


class Frame:
    """One call.

    `owner` and `method` are the innermost method (a free function keeps its caller's), `trail` the places of the calls
    that led here, `branches` the undecided conditions passed on the way and which arm was taken.
    """

    __slots__ = ("branches", "depth", "method", "owner", "returned", "scopes", "trail")

    def __init__(
        self, owner: ScriptObject | None, method: str, trail: tuple[int, ...], branches: Branches, depth: int
    ) -> None:
        self.owner = owner
        self.method = method
        self.trail = trail
        self.branches = branches
        self.depth = depth
        self.scopes: list[dict[str, Value]] = [{}]
        self.returned: Value | None = None

    @classmethod
    def start(cls, owner: ScriptObject, method: str) -> Frame:
        """The first call."""
        return cls(owner, method, (id(owner),), (), 0)

    def inner(self, owner: ScriptObject | None, method: str, place: int) -> Frame:
        """A call made from here."""
        return Frame(owner, method, (*self.trail, place), self.branches, self.depth + 1)

    def at_top(self) -> Frame:
        """The same call, followed later."""
        return Frame(self.owner, self.method, self.trail, self.branches, 0)

    def lookup(self, name: str) -> Value | None:
        """A variable's value, None when there is no such variable."""
        for scope in reversed(self.scopes):
            found = scope.get(name)
            if found is not None:
                return found
        return None


def exclusive(first: Branches, second: Branches) -> bool:
    """Whether two places stand in different arms of one condition, so that only one of them is reached."""
    arms = dict(first)
    return any(arms.get(condition, arm) is not arm for condition, arm in second)
