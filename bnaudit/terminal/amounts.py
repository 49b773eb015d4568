"""Numbers and counts in words, short."""

from __future__ import annotations

from collections.abc import Iterable

from bnaudit.printable import printable
from bnaudit.results import Finding, Severity


def number(value: float | int | str) -> str:
    """A number in the fewest digits that tell it: 4 significant ones, thousands separated."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, int) or (abs(value) < 1e15 and value == int(value)):
        return f"{int(value):,}"
    return f"{value:.4g}"


def span(ends: tuple[float, float] | tuple[int, int] | None) -> str:
    """`16–256`, one number when both ends are equal, "" for None."""
    if ends is None:
        return ""
    low, high = ends
    return number(low) if low == high else f"{number(low)}–{number(high)}"


def share(residual: float | None) -> str:
    """A share in per cent, "" for None."""
    if residual is None:
        return ""
    return "< 0.1 %" if residual < 0.001 else f"{residual * 100:.1f} %"


def bytes_text(size: int) -> str:
    """Bytes with three digits and a decimal unit."""
    if size < 1000:
        return f"{size} B"
    exponent = min((len(str(size)) - 1) // 3, 4)
    scaled = size / 1000**exponent
    return f"{scaled:.3g} {('B', 'kB', 'MB', 'GB', 'TB')[exponent]}"


def seconds_text(seconds: float) -> str:
    """`0.8 s`, `12 s`, `2 min 5 s`."""
    if seconds < 0.95:
        return f"{seconds:.2g} s"
    if seconds < 60:
        return f"{seconds:.3g} s" if seconds >= 9.95 else f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"


def plural(count: int, noun: str) -> str:
    """`1 layer`, `2 layers`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def counts(findings: Iterable[Finding]) -> list[tuple[Severity, str]]:
    """How many there are of each severity, worst first, severities without any left out."""
    found_of = []
    for severity in reversed(Severity):
        found = [finding for finding in findings if finding.severity is severity]
        # A note on 50 layers is one thing worth knowing; an error on 50 layers is 50 layers to mend.
        number_found = len({f.rule for f in found}) if severity is Severity.NOTE else len(found)
        if number_found:
            found_of.append((severity, plural(number_found, severity.label)))
    return found_of


def counts_text(findings: Iterable[Finding]) -> str:
    """`2 errors, 1 note`, "" without findings."""
    return ", ".join(amount for _, amount in counts(findings))
