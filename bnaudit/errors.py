"""The expected failures. Every message is one sentence that says what is wrong, where, and what to do.

BnauditError
├── UsageError            the command line or a call asks for something that does not exist
├── UnreadableError       the file cannot be audited as it is
│   ├── NotAModelError    it holds something else (a web page, a text file, nothing at all)
│   ├── MalformedError    it claims a format and breaks its rules (truncated, corrupt, contradictory)
│   ├── CapExceededError  reading it would take more than a cap allows
│   └── UnsafePathError   it refers to a file outside its own folder
└── NotAuditedError       a model format that is recognised and not read
"""

from __future__ import annotations


class BnauditError(Exception):
    """An expected failure: `str(error)` is one sentence for a person."""

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        self.what = what
        self.where = where
        self.remedy = remedy
        sentence = f"{what} ({where})" if where else what
        super().__init__(f"{sentence}: {remedy}" if remedy else sentence)

    def add(self, also: str) -> None:
        """Say one more thing in the same sentence."""
        self.args = (f"{self}; {also}",)


class UsageError(BnauditError):
    """The command line or a call asks for something that does not exist."""


class UnreadableError(BnauditError):
    """The file cannot be audited as it is."""


class NotAModelError(UnreadableError):
    """The file holds something other than a model."""


class MalformedError(UnreadableError):
    """The file claims a format and breaks its rules."""

    def __init__(self, what: str, *, where: str = "", remedy: str = "copy or save the file again") -> None:
        super().__init__(what, where=where, remedy=remedy)


class CapExceededError(UnreadableError):
    """Reading on would take more time or memory than a cap allows."""

    def __init__(self, what: str, *, where: str = "", cap: str) -> None:
        self.cap = cap
        super().__init__(what, where=where, remedy=f"raise it with --cap {cap}=… if you trust the file")


class UnsafePathError(UnreadableError):
    """The file refers to a file outside its own folder."""


class NotAuditedError(BnauditError):
    """A model format that is recognised and not read."""
