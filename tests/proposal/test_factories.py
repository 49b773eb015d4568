from __future__ import annotations

from pathlib import Path

import pytest

from bnaudit.proposal.factories import best, factories

SOURCE = '''
"""Uses "\\d" in a text."""
import torch
from torch import nn
from elsewhere import Thing

raise SystemExit("this file must not be imported")

class Block(nn.Module):
    def __init__(self, width, *, deep):
        self.conv = nn.Conv2d(3, width, 3)

class Net(nn.Module):
    def __init__(self, width=8):
        self.stem = Block(width, deep=1)
        self.bn1: nn.Module = nn.BatchNorm2d(width)

class Wide(Net):
    def __init__(self):
        self.extra = nn.BatchNorm2d(3)

class Plain:
    def __init__(self):
        self.stem = 1

class Circle(Circle): ...

def build(): return Net()
def build_wide() -> "Wide": ...
def configured(size): 
    net = Net(size)
    return net
def _hidden(): return Net()
def train(model): return 3
'''


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path


def test_what_makes_a_module_is_found_without_importing(source: Path) -> None:
    found = {each.name: each for each in factories([source])}
    assert set(found) == {"Block", "Net", "Wide", "build", "build_wide", "configured"}
    assert found["Block"].needs == ("width", "deep")
    assert found["Net"].needs == found["build"].needs == ()
    assert found["configured"].needs == ("size",)
    assert found["build"].attributes == {"stem", "bn1"}
    assert found["Wide"].attributes == found["build_wide"].attributes == {"stem", "bn1", "extra"}
    assert [found[name].is_class for name in ("Net", "build")] == [True, False]


def test_those_come_first_that_assign_what_the_layers_are_called(source: Path) -> None:
    found = factories([source])
    assert [each.name for each in best(found, frozenset({"bn1", "extra"}), source.parent)] == [
        "build_wide",
        "Wide",
        "build",
    ]
    assert [each.name for each in best(found, frozenset({"stem"}), source.parent, most=2)] == ["build", "build_wide"]
    assert best(found, frozenset({"other"}), source.parent) == []


def test_the_nearer_file_comes_first(tmp_path: Path) -> None:
    text = "class Net(Module):\n    def __init__(self): self.bn = 1\n"
    paths = [tmp_path / name / "net.py" for name in ("a", "b")]
    for path in paths:
        path.parent.mkdir()
        path.write_text(text, encoding="utf-8")
    (first, second) = best(factories(paths), frozenset({"bn"}), tmp_path / "b")
    assert (first.path, second.path) == (paths[1], paths[0])


@pytest.mark.parametrize(
    "content",
    [b"class Module(:", b"\xff\xfe Module", b"Module\x00", b"x = " + b"(" * 3000 + b"Module", b"# Module" * 200_000],
)
def test_a_file_that_does_not_parse_proposes_nothing(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_bytes(content)
    assert factories([path, tmp_path / "gone.py"]) == []


def test_tests_propose_nothing(source: Path) -> None:
    assert factories([source.rename(source.with_name("test_net.py"))]) == []
