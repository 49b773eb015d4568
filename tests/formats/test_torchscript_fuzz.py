"""Damaged and hostile TorchScript archives: a description or one clear error, in bounded time, and nothing runs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from outcomes import outcome_of
from torch import Tensor, nn
from torchscript_builders import described, layers_of, randomized, rewritten, saved, traced

from bnaudit.caps import Caps
from bnaudit.description import Description
from bnaudit.errors import BnauditError, UnreadableError
from bnaudit.formats.torchscript import FORMAT


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv1d(4, 4, 1), nn.BatchNorm1d(4), nn.Dropout(0.2))
        self.instance = nn.InstanceNorm1d(4, affine=True, track_running_stats=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.instance(self.first(x))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("torchscript")
    net, example = randomized(Net()), torch.randn(2, 4, 5)
    script = torch.jit.script(net)
    frozen = torch.jit.freeze(torch.jit.script(Net().eval()), optimize_numerics=False)
    mobile = folder / "net.ptl"
    script._save_for_lite_interpreter(str(mobile))
    return [
        saved(script, folder / "script.pt"),
        saved(traced(net, example), folder / "trace.pt"),
        saved(frozen, folder / "frozen.pt"),
        rewritten(mobile, folder / "bare.ptl", {".py": lambda _: None}),
    ]


def outcome(path: Path) -> Description | BnauditError | None:
    """What the format makes of the file."""
    return outcome_of(FORMAT, path, 10)


def test_truncation_at_any_length_is_one_clear_error(files: list[Path], tmp_path: Path) -> None:
    chance = random.Random(0)
    target = tmp_path / "cut.pt"
    for path in files:
        data = path.read_bytes()
        for length in [*range(0, 100, 9), *(chance.randrange(len(data)) for _ in range(25)), len(data) - 1]:
            target.write_bytes(data[:length])
            found = outcome(target)
            assert found is None or isinstance(found, UnreadableError)


def test_flipped_bytes_never_break_the_reader(files: list[Path], tmp_path: Path) -> None:
    chance = random.Random(1)
    target = tmp_path / "flipped.pt"
    kinds = set()
    for path in files:
        data = path.read_bytes()
        for _ in range(100):
            damaged = bytearray(data)
            for _ in range(chance.choice([1, 3, 20])):
                damaged[chance.randrange(len(data))] = chance.randrange(256)
            target.write_bytes(damaged)
            kinds.add(type(outcome(target)))
    assert Description in kinds and len(kinds) > 1


def test_damaged_text_never_breaks_the_reader(files: list[Path], tmp_path: Path) -> None:
    chance = random.Random(2)
    words = [
        b"True",
        b"self",
        b"(",
        b")",
        b"[",
        b"0",
        b"-1",
        b".",
        b"if ",
        b"\n  ",
        b"=",
        b"CONSTANTS.c9",
        b"class ",
        b"\xff",
    ]

    def damage(text: bytes) -> bytes:
        for _ in range(chance.choice([1, 2, 5])):
            at = chance.randrange(len(text) + 1)
            text = text[:at] + chance.choice(words) + text[at + chance.choice([0, 1, 4, 30]) :]
        return text

    with_gap = 0
    for number in range(200):
        path = rewritten(chance.choice(files[:3]), tmp_path / f"{number % 2}.pt", {".py": damage})
        found = outcome(path)
        assert isinstance(found, Description)
        with_gap += any(gap.hides_norms for gap in found.gaps)
    assert with_gap > 50


def test_damaged_pickles_never_break_the_reader(files: list[Path], tmp_path: Path) -> None:
    chance = random.Random(3)

    def damage(data: bytes) -> bytes:
        damaged = bytearray(data)
        for _ in range(chance.choice([1, 2, 8])):
            damaged[chance.randrange(len(data))] = chance.randrange(256)
        return bytes(damaged)

    for number in range(200):
        member = chance.choice(["data.pkl", "constants.pkl", "traced_inputs.pkl", "bytecode.pkl"])
        outcome(rewritten(chance.choice(files), tmp_path / f"{number % 2}.pt", {member: damage}))


def test_code_is_never_run(files: list[Path], tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    act = f'__import__("pathlib").Path("{canary}").touch()'.encode()
    for text in (
        act + b"\n",
        b"class Net(Module):\n  __parameters__ = " + act + b"\n  eps : Final[float] = " + act + b"\n",
        b"def f(x: Tensor=" + act + b") -> Tensor:\n  return exec(" + act + b")\n",
    ):
        outcome(rewritten(files[0], tmp_path / "hostile.pt", {".py": lambda data, text=text: data + text}))
        outcome(rewritten(files[0], tmp_path / "hostile.pt", {".py": lambda data, text=text: text}))
    assert not canary.exists()


def test_a_part_of_the_code_that_is_too_deep_is_a_gap_and_the_rest_is_read(files: list[Path], tmp_path: Path) -> None:
    deep = b"def dropout(input: Tensor) -> Tensor:\n  return " + b"-" * 200_000 + b"1\n"
    path = rewritten(files[0], tmp_path / "deep.pt", {"functional.py": lambda data: deep + data})
    found = outcome(path)
    assert isinstance(found, Description)
    assert [(gap.where, gap.hides_norms) for gap in found.gaps] == [("__torch__.torch.nn.functional.dropout", True)]
    assert layers_of(found.parts[0])["first.1"].eps == 1e-5


def test_code_that_is_too_large_is_a_gap(files: list[Path], tmp_path: Path) -> None:
    def grow(data: bytes) -> bytes:
        return data + b"#" * (5 << 20)

    found = outcome(rewritten(files[0], tmp_path / "large.pt", {"functional.py": grow}))
    assert isinstance(found, Description)
    assert any("functional.py" in gap.where for gap in found.gaps)
    assert [layer.name for layer in found.parts[0].layers] == ["first.1", "instance"]


def test_missing_constants_and_storages_are_gaps(files: list[Path], tmp_path: Path) -> None:
    found = outcome(rewritten(files[2], tmp_path / "a.pt", {"constants.pkl": lambda _: b"\x80\x02("}))
    assert isinstance(found, Description)
    assert any(gap.where == "constants.pkl" and gap.hides_norms for gap in found.gaps)
    found = outcome(rewritten(files[0], tmp_path / "b.pt", {"/data/2": lambda _: None}))
    assert isinstance(found, Description)
    (layer,) = [layer for layer in found.parts[0].layers if any(tensor.unread for tensor in layer.tensors)]
    assert layer.name == "first.1"
    assert [gap.hides_norms for gap in found.gaps] == [False]


def test_a_chain_of_objects_without_end_is_read_in_bounded_time(files: list[Path], tmp_path: Path) -> None:
    """Each object holds the one before it through the memo, so that names would grow without limit."""
    links = 60_000
    make = b"c__torch__\nM\n)\x81q\x01"
    chain = b"".join(b"c__torch__\nM\n)\x81}X\x01\x00\x00\x00ah\x01sbq\x01" for _ in range(links))
    path = rewritten(files[0], tmp_path / "chain.pt", {"data.pkl": lambda _: b"\x80\x02" + make + chain + b"."})
    found = outcome(path)
    assert isinstance(found, Description)
    assert any("nested" in gap.why for gap in found.gaps)


def test_the_cap_on_followed_code_is_a_gap_that_names_it(files: list[Path]) -> None:
    found = described(files[0], Caps(graph_nodes=100))
    assert any("--cap graph_nodes" in gap.why for gap in found.gaps)
    assert [layer.name for layer in found.parts[0].layers] == ["first.1", "instance"]
