from __future__ import annotations

from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from bnaudit.commands import inspect as inspect_command
from bnaudit.option_texts import RunTexts
from bnaudit.plain_arguments import parse
from bnaudit.records import Record
from bnaudit.run_flags import FLAGS, runs_models
from bnaudit.run_options import RunOptions
from bnaudit.settings import Settings


def typed(*arguments: str) -> RunTexts:
    seen: list[RunTexts] = []

    def command(path: str = "", *, texts: RunTexts) -> int:
        seen.append(texts)
        return 0

    app = typer.Typer()
    app.command()(runs_models(command))
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return seen[0]


def test_every_text_has_an_option() -> None:
    assert tuple(FLAGS) == RunTexts._fields


def test_a_command_gets_what_was_typed_and_the_defaults_of_the_rest() -> None:
    assert typed() == RunTexts()
    arguments = ("--dim", "h=2", "--dim", "w=3", "--budget", "60s", "--as-is", "--batch-size", "8", "--model", "a:b")
    assert typed(*arguments) == RunTexts(dim=["h=2", "w=3"], budget="60s", as_is=True, batch_size=8, model="a:b")


def plain(value: object) -> object:
    return {name: plain(getattr(value, name)) for name in value._fields} if isinstance(value, Record) else value


@pytest.mark.parametrize("line", ["inspect a.pt", "inspect --static a.pt", "inspect a.pt b.pt --format json --static"])
def test_both_parsers_ask_for_the_same(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    def inspect(*request: Any) -> int:
        asked.append(request)
        return 0

    monkeypatch.setattr("bnaudit.inspection.inspect", inspect)
    app = typer.Typer()
    app.command()(inspect_command.command)
    assert CliRunner().invoke(app, line.split()[1:]).exit_code == 0
    short = parse(line.split())
    assert short is not None
    ((paths, format, settings),) = asked
    assert (tuple(paths), format) == (short.paths, short.format)
    assert plain(settings) == plain(Settings(run=RunOptions(static=short.static)))
