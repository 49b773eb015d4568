from __future__ import annotations

from bnaudit.results import Unmatched
from bnaudit.terminal.console_text import console_text
from bnaudit.terminal.unmatched_lines import unmatched_lines


def shown(*entries: Unmatched) -> list[str]:
    return console_text(lambda console: unmatched_lines(console, entries), 80, False).splitlines()


def gone(number: int, source: str = "base.json") -> Unmatched:
    return Unmatched(key=source, why=f"BN105 in {number}.pt fits no finding: take it away", error=False)


def mistyped(number: int) -> Unmatched:
    return Unmatched(key=f"bnaudit.toml: intended.BN{number}", why="'x' fits no layer: check it", error=True)


def test_a_few_are_all_named() -> None:
    assert shown(gone(1), mistyped(302)) == [
        "stale base.json: BN105 in 1.pt fits no finding: take it away",
        "error bnaudit.toml: intended.BN302: 'x' fits no layer: check it",
    ]


def test_of_thousands_that_are_gone_the_first_are_named_and_mistakes_all_the_same() -> None:
    lines = shown(
        *(gone(number) for number in range(3_000)), gone(0, "bnaudit.toml: accept[0]"), *map(mistyped, range(301, 331))
    )
    assert sum(line.startswith("error ") for line in lines) == 30
    assert sum(line.startswith("stale ") for line in lines) == 12
    assert lines[-1] == "and 2,989 more in base.json, bnaudit.toml: a json report names all"


def test_names_cannot_reach_the_terminal() -> None:
    assert "\x1b" not in "".join(shown(gone(1, "\x1b[31m.json"), *(gone(2, "\x1b[32m") for _ in range(20))))
