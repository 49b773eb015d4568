"""The expected failures. Every message is one sentence that says what is wrong, where, and what to do.

BnauditError
├── UsageError            the command line or a call asks for something that does not exist
├── UnreadableError       the file cannot be audited as it is
│   ├── NotAModelError    it holds something else (a web page, a text file, nothing at all)
│   ├── MalformedError    it claims a format and breaks its rules (truncated, corrupt, contradictory)
│   ├── CapExceededError  reading it would take more than a cap allows
│   └── UnsafePathError   it refers to a file outside its own folder
├── NotAuditedError       a model format that is recognised and not read
├── ViolatedInvariantError   a training loop broke what `bnaudit.watch` guards
└── UnfitModelError       a callback of a trainer found what must not be while a model trains
"""

from __future__ import annotations

_LONGEST = 400
"""Characters of one of the three pieces of a sentence."""


class BnauditError(Exception):
    """An expected failure: `str(error)` is one sentence for a person, on one line whatever names stand in it."""

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        self.what = _brief(what)
        self.where = _brief(where)
        self.remedy = _brief(remedy)
        sentence = f"{self.what} ({self.where})" if where else self.what
        super().__init__(f"{sentence}: {self.remedy}" if remedy else sentence)

    def add(self, also: str) -> None:
        """Say one more thing in the same sentence."""
        self.args = (f"{self}; {_brief(also)}",)


def _brief(text: str) -> str:
    """The text on one line, with the middle left out when it is long: names in a file may be any text of any length."""
    text = " ".join(text.splitlines())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}…{text[-_LONGEST // 2 :]}"


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


class ViolatedInvariantError(BnauditError):
    """A training loop broke what `bnaudit.watch` guards. `violation`: a bnaudit.watching.violations.Violation."""

    def __init__(self, what: str, *, where: str = "", remedy: str = "", violation: object = None) -> None:
        self.violation = violation
        super().__init__(what, where=where, remedy=remedy)


class UnfitModelError(BnauditError):
    """A callback of a trainer found what must not be. `findings`: all of them, as bnaudit.results.Finding."""

    def __init__(self, what: str, *, where: str = "", remedy: str = "", findings: tuple[object, ...] = ()) -> None:
        self.findings = findings
        super().__init__(what, where=where, remedy=remedy)


_FRAMEWORKS = ("torch", "onnx", "onnxruntime", "safetensors")


def not_installed(error: ModuleNotFoundError) -> UnreadableError | None:
    """What to install, when it is a framework that is missing; None for any other module."""
    name = (error.name or "").partition(".")[0]
    if name not in _FRAMEWORKS:
        return None
    return UnreadableError(f"{name} is not installed", remedy=f"pip install {name}")


def where_raised(error: BaseException) -> str:
    """An unexpected error with its class, message, and the file and line that raised it."""
    from pathlib import Path

    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace is not None else ""
    return f"{type(error).__name__}: {error}{place}"
