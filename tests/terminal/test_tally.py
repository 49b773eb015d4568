from __future__ import annotations

import io

import pytest
from rich.console import Console

from bnaudit.results import Severity, Unmatched
from bnaudit.tallies import Counted, Found, Tally
from bnaudit.terminal.tally import tally

NAN = Found(Severity.ERROR, "BN106", "non-finite-statistics")
DEAD = Found(Severity.WARNING, "BN105", "dead-channels")
NOTE = Found(Severity.NOTE, "BN112", "fresh-batch-norm")


def entry(
    path: str, code: int, reason: str = "", found: dict[Found, int] | None = None, audited: bool = True
) -> Counted:
    return Counted(
        path=path,
        exit_code=code,
        audited=audited,
        error=not audited and code == 2,
        reason=reason,
        looked=audited,
        fail_on=Severity.WARNING if audited else None,
        found=found or {},
        accepted=0,
    )


def shown(result: Tally, width: int = 80) -> list[str]:
    file = io.StringIO()
    tally(Console(file=file, width=width, highlight=False, soft_wrap=False), result, "out.jsonl")
    return [line.rstrip() for line in file.getvalue().splitlines()]


def of(*entries: Counted, **fields: object) -> Tally:
    result = Tally()
    for each in entries:
        result.add(each)
    for name, value in {"seconds": 12.0, **fields}.items():
        setattr(result, name, value)
    return result


def test_what_passes_takes_two_lines() -> None:
    assert shown(of(*(entry(f"{n}.pt", 0) for n in range(1200)))) == [
        "1,200 artifacts audited · 12 s",
        "no findings · exit 0: nothing at or above warning",
    ]


def test_everything_at_once_worst_first() -> None:
    many = [entry(f"models/{n:02}.pt", 1, found={NAN: 60 - n}) for n in range(12)]
    result = of(
        *many,
        entry("models/ok.pt", 0, found={NOTE: 9}),
        entry("models/open.pt", 3, "eval-mode not checked"),
        entry("models/two.pt", 1, "neighbours failed", {DEAD: 4}),
        entry("models/broken.pt", 2, "models/broken.pt is truncated: copy it again", audited=False),
        accepted=3,
        kept=5,
        dropped=1,
        other_files=2,
        unmatched=(Unmatched(key="bnaudit.toml: accept[0]", why="it fits no finding: take it out", error=False),),
    )
    lines = shown(result)
    assert lines == [
        "15 of 16 artifacts audited, 5 of them before · 12 s · 1 earlier result made",
        "again or left out · 2 other files: not a model",
        "",
        "error    BN106 non-finite-statistics  654 in 12 artifacts",
        "warning  BN105 dead-channels          4 in 1 artifact",
        "note     BN112 fresh-batch-norm       9 in 1 artifact",
        "",
        "error models/broken.pt is truncated: copy it again",
        *(f"fails models/{n:02}.pt: {60 - n} errors (BN106)" for n in range(9)),
        "and 5 more that do not pass: see out.jsonl",
        "",
        "stale bnaudit.toml: accept[0]: it fits no finding: take it out",
        "654 errors, 4 warnings, 1 note, 3 accepted · exit 2: something could not be read",
        "or run, or failed",
    ]


def test_reasons_and_findings_stand_together() -> None:
    lines = shown(
        of(entry("a.pt", 1, "neighbours failed", {DEAD: 4, NOTE: 1}), entry("b.pt", 3, "buffers inconclusive"))
    )
    assert "fails a.pt: neighbours failed; 4 warnings, 1 note (BN105)" in lines
    assert "open b.pt: buffers inconclusive" in lines


@pytest.mark.parametrize(
    ("result", "meaning"),
    [
        (of(), "exit 3: nothing was checked"),
        (of(entry("a.pt", 0), entry("b.tflite", 3, audited=False)), "exit 3: 1 artifact not audited"),
        (of(entry("a.pt", 3, "eval-mode not checked")), "exit 3: required verdicts are not decided"),
        (of(entry("a.pt", 1, "buffers failed")), "exit 1: a required verdict failed"),
        (of(entry("a.pt", 1, found={NAN: 1})), "exit 1: findings at or above warning"),
        (of(entry("a.pt", 0), interrupted=True), "exit 130: interrupted, --resume goes on"),
        (of(entry("a.pt", 1, found={NAN: 1}), exit_zero=True), "exit 0: for information only, --exit-zero"),
        (
            of(entry("a.pt", 0), unmatched=(Unmatched(key="k", why="w", error=True),)),
            "exit 2: the settings name what is not there",
        ),
    ],
)
def test_the_last_line_says_what_the_exit_code_means(result: Tally, meaning: str) -> None:
    assert meaning in shown(result)[-1]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_hostile_names_stay_inside_and_no_line_is_wider(width: int) -> None:
    hostile = "bn\x1b[2J\n\u202e[red]<b>\udc9b" * 4
    result = of(
        entry(hostile, 2, f"why {hostile}", audited=False),
        entry("a.pt", 1, found={Found(Severity.ERROR, "BN106", hostile): 3}),
        unmatched=(Unmatched(key=hostile, why=hostile, error=True),),
    )
    text = shown(result, width)
    assert max(map(len, text)) <= width
    assert not {"\x1b", "\u202e", "\udc9b"} & set("".join(text))
    assert "[red]" in "".join(text)
