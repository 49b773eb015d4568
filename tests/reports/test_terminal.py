from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from bnaudit.printable import printable
from bnaudit.records import replace
from bnaudit.reports import View
from bnaudit.reports.terminal import RENDERER
from bnaudit.results import Audit, LedgerRow, Report, Unaudited
from bnaudit.terminal.amounts import number

Make = Callable[..., Report]


def lines(report: Report, **view: object) -> list[str]:
    return RENDERER.render(report, View(**view)).splitlines()  # type: ignore[arg-type]


def test_a_healthy_model_gets_a_short_report(make_report: Make, healthy: Audit) -> None:
    shown = lines(make_report(healthy))
    assert len(shown) <= 18
    assert "layer{1,2}.{0,1,2}.bn{1,2} ×12" in "\n".join(shown)
    assert shown[-1].startswith("no findings · exit 0")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(
    make_report: Make, faulty: Audit, unreadable: Unaudited, width: int
) -> None:
    shown = lines(make_report(faulty, faulty, unaudited=(unreadable,)), width=width)
    assert max(map(len, shown)) <= width


def test_a_pipe_gets_no_escape_sequences(make_report: Make, faulty: Audit) -> None:
    assert "\x1b" not in "\n".join(lines(make_report(faulty)))


def test_colour_adds_nothing_but_styles(make_report: Make, faulty: Audit) -> None:
    plain = "\n".join(lines(make_report(faulty)))
    colored = "\n".join(line.rstrip() for line in lines(make_report(faulty), color=True))
    assert colored != plain
    stripped = re.sub(r"\x1b\[[0-9;]*m", "", colored)
    assert [line.rstrip() for line in stripped.splitlines()] == plain.splitlines()


def test_a_hostile_layer_name_reaches_no_terminal(make_report: Make, faulty: Audit) -> None:
    for color in (False, True):
        text = RENDERER.render(make_report(faulty), View(color=color))
        assert "\x1b[2J" not in text
        assert "\u202e" not in text
        assert "[red]<b>" in text.replace("\n", "")


def test_findings_come_worst_first_with_their_layers_compressed_and_the_advice_once(
    make_report: Make, faulty: Audit
) -> None:
    text = "\n".join(lines(make_report(faulty)))
    assert "layer1.{0,1,2,5}.bn1 ×4  running_var is not in the file [0 … 5, limit 1]" in text
    assert text.index("error BN101") < text.index("warning BN105") < text.index("note BN112")
    group = text[text.index("error BN101") : text.index("error BN106")]
    assert group.count("save the whole state dict") == 1


def test_parts_that_are_alike_are_shown_once(make_report: Make, healthy: Audit, faulty: Audit) -> None:
    def in_part(name: str) -> tuple[LedgerRow, ...]:
        return tuple(replace(row, part=name) for row in healthy.ledger)

    clients = (*in_part("clients.0"), *in_part("clients.1"), replace(healthy.ledger[0], part="server", kind="group"))
    shown = lines(make_report(replace(healthy, ledger=clients)))
    assert "  2 parts alike: clients.{0,1}" in shown
    assert "  part server" in shown
    assert "\n".join(shown).count("layer{1,2}.{0,1,2}.bn{1,2} ×12") == 2
    twice = (*faulty.findings, *(replace(finding, part="ema") for finding in faulty.findings))
    text = " ".join(" ".join(lines(make_report(replace(faulty, findings=twice)))).split())
    assert "(the file itself), ema: layer1.{0,1,2,5}.bn1 ×8 running_var is not in the file" in text


def test_errors_that_no_verdict_speaks_of_stand_above_the_verdicts(make_report: Make, faulty: Audit) -> None:
    hostile = replace(
        faulty.findings[0], rule="BN901", layer=None, message="loading it runs\x1b a program", question=None
    )
    shown = lines(make_report(replace(faulty, findings=(*faulty.findings, hostile))))
    (alarm,) = [line for line in shown if line.startswith("error BN901") and "runs\\x1b a program" in line]
    assert shown.index(alarm) < next(i for i, line in enumerate(shown) if "buffers complete" in line)
    assert len(alarm) <= 80


def test_notes_take_one_line_unless_everything_is_asked_for(make_report: Make, faulty: Audit) -> None:
    (note,) = [line for line in lines(make_report(faulty)) if line.startswith("note")]
    assert "running_var is not in the file" in note
    assert any("save the whole state dict" in line for line in lines(make_report(faulty), in_full=True))


def test_unread_files_are_named_and_the_exit_code_is_said(make_report: Make, unreadable: Unaudited) -> None:
    shown = lines(make_report(unaudited=(unreadable,)))
    assert shown[0] == "error broken.pt is truncated: copy it again"
    assert "exit 2" in shown[-1]


def test_many_artifacts_get_a_summary_and_only_the_notable_ones_a_report(
    make_report: Make, healthy: Audit, faulty: Audit
) -> None:
    text = "\n".join(lines(make_report(healthy, faulty)))
    assert "buffers complete" not in text
    assert text.count("error BN101") == 1
    assert sum(line.endswith("+ . . . .") for line in text.splitlines()) == 1
    assert "verdicts: buffers, eval-mode, neighbours, train-eval-gap, frozen" in text


def test_numbers_are_short_and_exact() -> None:
    assert [number(v) for v in (92385.0, 0.05, 1e-7, 3, 3317.25, float("inf"), float("nan"))] == [
        "92,385",
        "0.05",
        "1e-07",
        "3",
        "3317",
        "inf",
        "nan",
    ]


def test_what_can_be_printed_stays_as_it_is() -> None:
    assert printable("encoder.层.bn1") == "encoder.层.bn1"
    assert printable("a\x00\ud800") == "a\\x00\\ud800"
