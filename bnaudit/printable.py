"""Text from a file, made safe to print."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text without what a hostile name could do to a terminal: control, format and surrogate characters."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
