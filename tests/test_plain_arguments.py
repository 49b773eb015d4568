from __future__ import annotations

import pytest

from bnaudit.plain_arguments import PlainInspect, parse


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        ("inspect a.pt", PlainInspect(("a.pt",))),
        ("inspect --static a.pt b.pt", PlainInspect(("a.pt", "b.pt"), static=True)),
        ("inspect a.pt --format json", PlainInspect(("a.pt",), "json")),
    ],
)
def test_everyday_command_lines_need_no_typer(line: str, request_: PlainInspect) -> None:
    assert parse(line.split()) == request_


@pytest.mark.parametrize(
    "line",
    ["", "inspect", "rules", "inspect --help", "inspect a.pt -h", "inspect a.pt --select BN1", "inspect --static",
     "inspect a.pt --format", "inspect -- -a.pt", "--version", "inspect a.pt --format=json", "inspect a.pt --statik"],
)  # fmt: skip
def test_everything_else_is_left_to_typer(line: str) -> None:
    assert parse(line.split()) is None
