from __future__ import annotations

import pytest

from bnaudit.plain_arguments import PlainCompare, PlainInspect, parse


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("inspect a.pt", PlainInspect(("a.pt",))),
        ("inspect --static a.pt b.pt", PlainInspect(("a.pt", "b.pt"), static=True)),
        ("inspect a.pt --format json", PlainInspect(("a.pt",), "json")),
        ("compare a.pt b.onnx", PlainCompare(("a.pt", "b.onnx"))),
        ("compare a.pt#ema --format json a.pt --static", PlainCompare(("a.pt#ema", "a.pt"), "json", static=True)),
    ],
)
def test_everyday_command_lines_need_no_typer(line: str, asked: PlainInspect | PlainCompare) -> None:
    assert parse(line.split()) == asked


@pytest.mark.parametrize(
    "line",
    ["", "inspect", "rules", "inspect --help", "inspect a.pt -h", "inspect a.pt --select BN1", "inspect --static",
     "inspect a.pt --format", "inspect -- -a.pt", "--version", "inspect a.pt --format=json", "inspect a.pt --statik",
     "compare", "compare a.pt", "compare a.pt b.pt c.pt", "compare a.pt --roundtrip", "compare a.pt b.pt --inputs x"],
)  # fmt: skip
def test_everything_else_is_left_to_typer(line: str) -> None:
    assert parse(line.split()) is None
