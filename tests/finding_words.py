"""How findings are worded and how severe they may be, for the contracts of rules."""

from __future__ import annotations

from typing import Any

from bnaudit.results import Confidence, Severity

MOST_SEVERE = {Confidence.LOW: Severity.NOTE, Confidence.MEDIUM: Severity.WARNING, Confidence.HIGH: Severity.ERROR}


def check_words(rule: str, message: str, advice: str) -> None:
    """One line each, no full stop: reports put the message behind the layers and the advice behind an arrow."""
    for text in (message, advice):
        assert text.strip() == text != "", (rule, text)
        assert len(text.splitlines()) == 1, (rule, text)
        assert not text.endswith((".", ":", ";", ",")), (rule, text)
    assert not begins_a_sentence(advice), (rule, advice)
    assert not begins_a_sentence(message), (rule, message)


def begins_a_sentence(text: str) -> bool:
    """Whether the first word is written as at the start of a sentence: `Load` and not `NaN`, `BatchNorm2d` or `x`."""
    first: Any = text.split(maxsplit=1)[0]
    return first.isalpha() and first[0].isupper() and (first[1:].islower() or len(first) == 1)
