from __future__ import annotations

import pytest

from bnaudit.plain_arguments import PlainCompare, PlainInspect, PlainTrace, parse


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("inspect a.pt", PlainInspect(("a.pt",))),
        ("inspect --static a.pt b.pt", PlainInspect(("a.pt", "b.pt"), static=True)),
        ("inspect a.pt --format json", PlainInspect(("a.pt",), "json")),
        ("compare a.pt b.onnx", PlainCompare(("a.pt", "b.onnx"))),
        ("compare a.pt#ema --format json a.pt --static", PlainCompare(("a.pt#ema", "a.pt"), "json", static=True)),
        ("trace a.pt bn1", PlainTrace("a.pt", "bn1")),
        ("trace --channel 3 a.pt#ema bn1 --format json", PlainTrace("a.pt#ema", "bn1", 3, "json")),
    ],
)
def test_everyday_command_lines_need_no_typer(line: str, asked: PlainInspect | PlainCompare | PlainTrace) -> None:
    assert parse(line.split()) == asked


@pytest.mark.parametrize(
    "line",
    ["", "inspect", "rules", "inspect --help", "inspect a.pt -h", "inspect a.pt --select BN1", "inspect --static",
     "inspect a.pt --format", "inspect -- -a.pt", "--version", "inspect a.pt --format=json", "inspect a.pt --statik",
     "compare", "compare a.pt", "compare a.pt b.pt c.pt", "compare a.pt --roundtrip", "compare a.pt b.pt --inputs x",
     "compare a.pt b.pt --channel 1", "trace a.pt", "trace a.pt bn1 bn2", "trace a.pt bn1 --channel -1",
     "trace a.pt bn1 --channel x", "trace a.pt bn1 --channel", "trace a.pt bn1 --format html",
     "trace a.pt bn1 --inputs x"],
)  # fmt: skip
def test_everything_else_is_left_to_typer(line: str) -> None:
    assert parse(line.split()) is None
