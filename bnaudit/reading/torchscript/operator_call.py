"""An operator that TorchScript code reaches."""

from __future__ import annotations

from bnaudit.reading.torchscript.frames import Branches, Frame
from bnaudit.reading.torchscript.operators import Signature
from bnaudit.reading.torchscript.values import Known, StoredValue, Value


class OperatorCall:
    """One operator that the code reaches, with what is known of its arguments by name."""

    __slots__ = ("arguments", "branches", "method", "operator", "owner", "signature", "trail")

    def __init__(self, operator: str, found: Signature, arguments: dict[str, Value], frame: Frame, place: int) -> None:
        self.operator = operator
        self.signature = found
        self.arguments = arguments
        self.owner = frame.owner
        self.method = frame.method
        self.branches: Branches = frame.branches
        self.trail = (*frame.trail, place)

    def known(self, argument: str) -> Known | None:
        """An argument whose plain value is known."""
        found = self.arguments.get(argument)
        return found if isinstance(found, Known) else None

    def stored(self, argument: str) -> StoredValue | None:
        """An argument that is a stored tensor."""
        found = self.arguments.get(argument)
        return found if isinstance(found, StoredValue) else None
