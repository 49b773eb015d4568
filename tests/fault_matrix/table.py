"""What the matrix showed, as a table for people and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from fault_matrix.summary import summary
from fault_matrix.values import Drawn, Expectation, Outcome

_WIDEST = 32
"""Characters of a name, so that a row has 80 at most."""


class Line(NamedTuple):
    """The totals of some cells."""

    name: str
    cells: int
    shown: int
    """Cells whose carrier can show the fault."""
    found: int
    placed: int
    """Found cells whose carrier has names."""
    located: int
    near_misses: int
    """Cells just under a limit."""
    silent: int
    """Of them, without a word aloud."""
    unseen: int
    """Cells whose carrier cannot show the fault."""
    undecided: int
    """Of them with a question about it, in how many this was not checked or inconclusive."""
    asked: int
    """Of them, those with a question about it."""


def line(name: str, outcomes: Sequence[Outcome]) -> Line:
    """The totals of these cells."""
    shown = [each for each in outcomes if each.expected is Expectation.FOUND]
    found = [each for each in shown if each.found]
    near = [each for each in outcomes if each.expected is Expectation.SILENT and each.rule]
    unseen = [each for each in outcomes if each.expected is Expectation.UNSEEN]
    asked = [each for each in unseen if each.verdict]
    return Line(
        name=name,
        cells=len(outcomes),
        shown=len(shown),
        found=len(found),
        placed=sum(each.located is not None for each in found),
        located=sum(each.located is True for each in found),
        near_misses=len(near),
        silent=sum(not each.false_alarms for each in near),
        unseen=len(unseen),
        undecided=sum(each.verdict in ("not checked", "inconclusive") for each in asked),
        asked=len(asked),
    )


def failures(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The cells that are not as they have to be."""
    return [each for each in outcomes if not each.right]


def printed(outcomes: Sequence[Outcome], draws: Sequence[Drawn]) -> str:
    """The tables, at most 80 columns wide."""
    faulty = [each for each in outcomes if each.rule]
    parts = [
        _table("rule", _grouped(faulty, lambda each: each.rule)),
        _table("carrier", _grouped(faulty, lambda each: each.cell.carrier)),
        _table("architecture", _grouped(faulty, lambda each: each.cell.architecture)),
    ]
    if draws:
        parts.append("\n".join(f"{each.right:>5} of {each.draws}  {each.rule}  {each.name}" for each in draws))
    wrong = failures(outcomes)
    if wrong:
        counts = Counter(f"{each.rule or 'healthy'}, {each.cell.carrier}" for each in wrong)
        parts.append("not right:\n" + "\n".join(f"{count:>5}  {name}" for name, count in counts.most_common()))
    return "\n\n".join([*parts, summary(as_json(outcomes, draws))])


def _grouped(outcomes: Sequence[Outcome], key: Callable[[Outcome], str]) -> list[Line]:
    names = sorted({key(each) for each in outcomes})
    return [line(name, [each for each in outcomes if key(each) == name]) for name in names]


def _table(head: str, lines: Sequence[Line]) -> str:
    width = min(max([len(head), *(len(each.name) for each in lines)]), _WIDEST)
    rows = [f"{head:<{width}} {'cells':>6} {'recall':>9} {'located':>9} {'silent':>9} {'open':>9}"]
    rows += [
        f"{_cut(each.name, width):<{width}} {each.cells:>6} {_share(each.found, each.shown):>9} "
        f"{_share(each.located, each.placed):>9} {_share(each.silent, each.near_misses):>9} "
        f"{_share(each.undecided, each.asked):>9}"
        for each in lines
    ]
    return "\n".join(rows)


def _cut(name: str, width: int) -> str:
    return name if len(name) <= width else f"{name[: width - 1]}…"


def _share(part: int, whole: int) -> str:
    return f"{part}/{whole}" if whole else "–"


def totals(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The figures of the summary."""
    all_of_them = line("all", [each for each in outcomes if each.rule])
    healthy = [each for each in outcomes if not each.rule]
    layers, alarms = sum(each.layers for each in outcomes), sum(len(each.false_alarms) for each in outcomes)
    return {
        **all_of_them._asdict(),
        "cells": len(outcomes),
        "healthy": len(healthy),
        "healthy_right": sum(each.right for each in healthy),
        "faults": len({each.cell.fault for each in outcomes if each.rule}),
        "rules": len({each.rule for each in outcomes if each.rule}),
        "architectures": len({each.cell.architecture for each in outcomes}),
        "carriers": len({each.cell.carrier for each in outcomes}),
        "healthy_layers": layers,
        "false_alarms": alarms,
        "false_alarms_per_thousand_layers": 1000 * alarms / max(layers, 1),
        "not_right": len(failures(outcomes)),
    }


def as_json(outcomes: Sequence[Outcome], draws: Sequence[Drawn]) -> dict[str, Any]:
    """Totals, a line for every rule, and every cell that is not right."""
    faulty = [each for each in outcomes if each.rule]
    return {
        "totals": totals(outcomes),
        "rules": [each._asdict() for each in _grouped(faulty, lambda each: each.rule)],
        "carriers": [each._asdict() for each in _grouped(faulty, lambda each: each.cell.carrier)],
        "architectures": [each._asdict() for each in _grouped(faulty, lambda each: each.cell.architecture)],
        "draws": [{**each._asdict(), "expected": each.expected.value} for each in draws],
        "not_right": [{**each.cell._asdict(), "why": each.why} for each in failures(outcomes)],
    }
