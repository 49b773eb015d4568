"""Damaged .pt2 archives: a description or one clear error, always, in bounded time."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from exported_builders import as_torch_2_7, described, export, randomized, rewritten, saved
from outcomes import outcome_of
from torch import nn

from bnaudit.description import Description
from bnaudit.errors import BnauditError
from bnaudit.formats.exported_program import FORMAT


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.other = nn.BatchNorm1d(4), nn.BatchNorm1d(4)
        self.instance, self.drop = nn.InstanceNorm1d(4, track_running_stats=True), nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            x = self.other(x)
        return self.drop(self.instance(self.norm(x)))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("pt2")
    program = export(randomized(Net()), torch.randn(3, 4, 5), training=True)
    lowered = export(randomized(Net()), torch.randn(3, 4, 5), training=True, decomposed=True)
    current = saved(program, folder / "net.pt2")
    return [current, saved(lowered, folder / "low.pt2"), as_torch_2_7(program, current, folder / "flat.pt2")]


def outcome(path: Path) -> Description | BnauditError | None:
    """What the format makes of the file."""
    return outcome_of(FORMAT, path, 5)


def test_truncation_at_many_lengths(files: list[Path], tmp_path: Path) -> None:
    damaged = tmp_path / "cut.pt2"
    for path in files:
        content = path.read_bytes()
        for length in range(0, len(content), max(1, len(content) // 60)):
            damaged.write_bytes(content[:length])
            assert not isinstance(outcome(damaged), Description)


def test_flipped_bytes(files: list[Path], tmp_path: Path) -> None:
    generator = random.Random(0)
    damaged = tmp_path / "flipped.pt2"
    for path in files:
        content = path.read_bytes()
        for _ in range(120):
            changed = bytearray(content)
            for _ in range(generator.choice([1, 1, 4, 32])):
                changed[generator.randrange(len(changed))] = generator.randrange(256)
            damaged.write_bytes(changed)
            outcome(damaged)


def _mutate(value: Any, generator: random.Random) -> Any:
    """The document with one place replaced by something else."""
    junk = [None, True, -1, 2**70, 1e308, "", "x", [], {}, [[]], {"as_int": "x"}, {"as_tensor": {"name": 3}}]
    if not isinstance(value, (dict, list)) or not value or generator.random() < 0.03:
        return generator.choice(junk)
    keys = list(value) if isinstance(value, dict) else range(len(value))
    key = generator.choice(list(keys))
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[key] = _mutate(value[key], generator)
    return copy


def test_json_that_says_something_else(files: list[Path], tmp_path: Path) -> None:
    generator = random.Random(1)
    described_ones = 0
    for path in files:
        for _ in range(150):

            def change(members: dict[str, bytes]) -> dict[str, bytes]:
                documents = [name for name, content in members.items() if content[:1] == b"{"]
                name = generator.choice(documents)
                changed = json.dumps(_mutate(json.loads(members[name]), generator)).encode()
                return members | {name: changed}

            described_ones += isinstance(outcome(rewritten(path, tmp_path / "odd.pt2", change)), Description)
    assert described_ones > 100  # most places do not matter to norm layers


def test_values_that_stand_for_each_other_in_a_circle_end(files: list[Path], tmp_path: Path) -> None:
    def knot(members: dict[str, bytes]) -> dict[str, bytes]:
        name = next(name for name in members if "/models/" in name)
        program = json.loads(members[name])
        nodes = program["graph_module"]["graph"]["nodes"]
        for first, second in (("a", "b"), ("b", "a")):
            reference = {"name": "self", "arg": {"as_tensor": {"name": second}}}
            node = {"target": "torch.ops.aten.view.default", "inputs": [reference], "metadata": {}}
            nodes.insert(0, node | {"outputs": [{"as_tensor": {"name": first}}]})
        for node in nodes:
            for argument in node["inputs"]:
                if argument["name"] in ("input", "running_mean", "weight"):
                    argument["arg"] = {"as_tensor": {"name": "a"}}
        return members | {name: json.dumps(program).encode()}

    description = described(rewritten(files[0], tmp_path / "knot.pt2", knot))
    assert len(description.parts[0].layers) >= 1
