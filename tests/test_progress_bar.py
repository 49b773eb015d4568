from __future__ import annotations

import io
import time
from pathlib import Path

import pytest

from bnaudit.progress_bar import FileCount, ProgressBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal_of(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """To be called in a test, not a fixture: pytest sets stderr anew in between."""
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    return stream


def shown(stream: Terminal, text: str) -> bool:
    """Whether the text appears within five seconds."""
    until = time.monotonic() + 5
    while text not in stream.getvalue() and time.monotonic() < until:
        time.sleep(0.01)
    return text in stream.getvalue()


def test_the_forward_and_the_layer_are_shown_and_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    with ProgressBar(delay=0) as bar:
        bar.artifact(Path("net.pt"), 0, 2)
        bar.forward("companions swapped", 2, 8)
        assert shown(terminal, "net.pt · companions swapped")
        assert shown(terminal, "2/8")
        bar.layer("layer1.0.bn\x1b[2J1")
        assert shown(terminal, "layer1.0.bn\\x1b[2J1")
    assert "\x1b[2J" not in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[2K"), "the line is wiped"


def test_of_many_files_it_is_shown_how_many_are_done_and_what_came_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    with ProgressBar(delay=0) as bar:
        for number, code in enumerate((0, 0, 1, 2)):
            bar.artifact(Path("net\x1b[2J.pt"), number, 800)
            bar.finished(code)
        assert shown(terminal, "4/800 · ")
        assert shown(terminal, "left · 1 not passing · 1 error")
        assert shown(terminal, "net\\x1b[2J.pt")
    assert "\x1b[2J" not in terminal.getvalue()


def test_the_pace_is_the_mean_since_the_first_file() -> None:
    now = [100.0]
    files = FileCount(lambda: now[0])
    assert files.pace() == "0/0"
    now[0] = 500.0
    files.expect(600)
    assert files.pace() == "0/600"
    for _ in range(100):
        files.count(0)
    now[0] = 502.5
    assert files.pace() == "100/600 · 40 a second · 0:12 left"
    now[0] = 550.0
    assert files.pace() == "100/600 · 2.0 a second · 4:10 left"
    now[0] = 4500.0
    files.count(2), files.count(2), files.count(3)
    assert files.pace() == "103/600 · 5:21:41 left · 1 not passing · 2 errors"  # 4000 s for 103, 497 left: 19301 s


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    with ProgressBar(delay=60) as bar:
        for number in range(100):
            bar.artifact(Path("net.pt"), number, 100)
            bar.forward("anchors", 1, 8)
            bar.layer("bn1")
    assert terminal.getvalue() == ""


def test_one_artifact_that_is_only_read_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    with ProgressBar(delay=0) as bar:
        bar.artifact(Path("net.pt"), 0, 1)
        time.sleep(0.05)
    assert terminal.getvalue() == ""


def test_no_terminal_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    with ProgressBar(delay=0) as bar:
        bar.artifact(Path("net.pt"), 0, 2)
        bar.forward("anchors", 1, 8)
        time.sleep(0.05)
    assert stream.getvalue() == ""


def test_an_exception_leaves_no_line_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    with pytest.raises(KeyboardInterrupt), ProgressBar(delay=0) as bar:
        bar.forward("anchors", 1, 8)
        assert shown(terminal, "anchors")
        raise KeyboardInterrupt
    assert terminal.getvalue().endswith("\x1b[2K")
