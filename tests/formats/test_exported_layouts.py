"""The layouts of .pt2 archives through torch's versions, and what stands in an archive beside a program."""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from exported_builders import (
    as_torch_2_7,
    as_torch_2_8,
    described,
    export,
    randomized,
    rewritten,
    saved,
    torch_saved,
    with_program,
)
from torch import nn

from bnaudit.caps import Caps
from bnaudit.description import Description
from bnaudit.errors import CapExceededError, MalformedError
from bnaudit.formats import Candidate
from bnaudit.formats.exported_program import FORMAT
from bnaudit.reading.byte_source import ByteSource


class Net(nn.Module):
    """A norm whose weights are parameters and buffers, and one whose statistics are constants."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.register_buffer("running_mean", torch.arange(4.0), persistent=False)
        self.register_buffer("running_var", torch.arange(4.0) + 1, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.conv(x))
        return nn.functional.batch_norm(x, self.running_mean, self.running_var)


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    return export(randomized(Net()), torch.randn(2, 3, 8, 8))


@pytest.fixture(scope="module")
def original(program: torch.export.ExportedProgram, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(program, tmp_path_factory.mktemp("pt2") / "net.pt2")


def facts(description: Description) -> dict[str, Any]:
    part = description.parts[0]
    return {
        layer.name: (
            layer.kind,
            layer.graph_training,
            [(t.name, t.dtype, None if t.values is None else t.values.tolist()) for t in layer.tensors],
        )
        for layer in part.layers
    } | {"tensors": part.tensors, "inputs": part.inputs, "trainable": part.trainable}


def test_constants_count_as_values(program: torch.export.ExportedProgram, original: Path) -> None:
    first, second = described(original).parts[0].layers
    assert (first.name, second.name) == ("norm", "")
    assert second.mean is not None
    assert second.var is not None
    assert second.mean.tolist() == program.constants["running_mean"].tolist()
    assert second.var.tolist() == program.constants["running_var"].tolist()


def test_the_first_folder_layout_says_the_same(
    program: torch.export.ExportedProgram, original: Path, tmp_path: Path
) -> None:
    older = as_torch_2_8(program, original, tmp_path / "older.pt2")
    torch.export.load(older)  # it is what torch takes for that layout
    assert facts(described(older)) == facts(described(original))


@pytest.mark.parametrize("suffix", [".pt", ".json"])
def test_the_flat_layout_says_the_same(
    program: torch.export.ExportedProgram, original: Path, tmp_path: Path, suffix: str
) -> None:
    flat = as_torch_2_7(program, original, tmp_path / "flat.pt2", suffix)
    with zipfile.ZipFile(flat) as archive:
        assert "version" in archive.namelist()
    assert facts(described(flat)) == facts(described(original))


def test_the_signature_of_torch_2_1_is_understood(original: Path, tmp_path: Path) -> None:
    def age(program: dict[str, Any]) -> None:
        module = program["graph_module"]
        specs = module["signature"]["input_specs"]
        old: dict[str, Any] = {"buffers_to_mutate": {"getitem_3": "norm.running_mean"}, "user_inputs": ["x"]}
        for kind, key, target in (
            ("parameter", "parameter_name", "inputs_to_parameters"),
            ("buffer", "buffer_name", "inputs_to_buffers"),
        ):
            entries = [spec[kind] for spec in specs if kind in spec]
            old[target] = {entry["arg"]["name"]: entry[key] for entry in entries}
        module["signature"] = old
        del program["torch_version"]

    old = described(with_program(original, tmp_path / "old.pt2", age))
    assert facts(old) == facts(described(original))
    assert old.parts[0].buffers_to_mutate == ("norm.running_mean",)
    assert old.artifact.producer is None


def test_a_package_of_several_programs_has_a_part_for_each(tmp_path: Path) -> None:
    from torch.export.pt2_archive._package import package_pt2

    programs = {
        "encoder": export(nn.Sequential(nn.BatchNorm1d(3)), torch.randn(2, 3)),
        "decoder": export(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), torch.randn(2, 3), training=True),
    }
    path = tmp_path / "both.pt2"
    package_pt2(path, exported_programs=programs)
    parts = described(path).parts
    assert {part.name: [layer.name for layer in part.layers] for part in parts} == {"encoder": ["0"], "decoder": ["1"]}
    assert {part.name: part.layers[0].graph_training for part in parts} == {"encoder": False, "decoder": True}


def test_a_hostile_pickle_in_the_package_is_recorded_and_not_run(original: Path, tmp_path: Path) -> None:
    canary = tmp_path / "canary"

    class Hostile:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, (f"touch {canary}",)

    def plant(members: dict[str, bytes]) -> dict[str, bytes]:
        root = next(iter(members)).split("/")[0]
        inputs = f"{root}/data/sample_inputs/model.pt"
        opaque = f"{root}/data/constants/opaque_obj_0"
        return members | {inputs: torch_saved((Hostile(),)), opaque: pickle.dumps(Hostile(), 2)}

    description = described(rewritten(original, tmp_path / "hostile.pt2", plant))
    called = {entry.name for entry in description.imports if entry.called}
    assert f"{os.system.__module__}.system" in called
    assert not canary.exists()
    assert len(description.parts[0].layers) == 2


def test_a_broken_pickle_beside_the_graph_is_a_gap(original: Path, tmp_path: Path) -> None:
    def spoil(members: dict[str, bytes]) -> dict[str, bytes]:
        return {n: b"PK\x03\x04" if "/sample_inputs/" in n else content for n, content in members.items()}

    description = described(rewritten(original, tmp_path / "m.pt2", spoil))
    assert [gap.hides_norms for gap in description.gaps] == [False]


def test_a_compiled_library_beside_the_graph_is_said(original: Path, tmp_path: Path) -> None:
    def add(members: dict[str, bytes]) -> dict[str, bytes]:
        root = next(iter(members)).split("/")[0]
        return members | {f"{root}/data/aotinductor/model/a.wrapper.so": b"\x7fELF"}

    description = described(rewritten(original, tmp_path / "m.pt2", add))
    assert [gap.where for gap in description.gaps] == ["data/aotinductor"]


def test_custom_operators_named_like_norms_are_gaps(original: Path, tmp_path: Path) -> None:
    def rename(program: dict[str, Any]) -> None:
        for node in program["graph_module"]["graph"]["nodes"]:
            node["target"] = node["target"].replace("aten.batch_norm", "mylib.fused_bn_relu")

    description = described(with_program(original, tmp_path / "m.pt2", rename))
    (layer,) = description.parts[0].layers  # the other call stands in no module that is a norm by its class
    assert (layer.name, layer.spelled_out, layer.graph_training) == ("norm", True, None)
    assert ["mylib.fused_bn_relu" in gap.why and gap.hides_norms for gap in description.gaps] == [True]


def test_a_compiled_package_without_a_graph_is_not_claimed(tmp_path: Path) -> None:
    path = tmp_path / "compiled.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("c/archive_format", "pt2")
        archive.writestr("c/data/aotinductor/model/c.wrapper.so", b"\x7fELF")
    with ByteSource.open(path) as source:
        assert not FORMAT.claims(Candidate(path, source))


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 200_000,
        b"{",
        b'{"graph_module": 3}',
        b'{"graph_module": {"graph": {"nodes": [3]}}}',
        b"\xff\xfe{",
        b"null",
    ],
    ids=["deep", "cut", "number", "node", "bytes", "null"],
)
def test_a_broken_program_is_one_clear_error(original: Path, tmp_path: Path, content: bytes) -> None:
    def spoil(members: dict[str, bytes]) -> dict[str, bytes]:
        return {name: content if "/models/" in name else kept for name, kept in members.items()}

    path = rewritten(original, tmp_path / "broken.pt2", spoil)
    with pytest.raises(MalformedError) as caught:
        described(path)
    assert "\n" not in str(caught.value)


def test_nested_subgraphs_are_walked_at_any_depth(original: Path, tmp_path: Path) -> None:
    def nest(program: dict[str, Any]) -> None:
        graph: dict[str, Any] = {"inputs": [], "outputs": [], "nodes": [], "tensor_values": {}}
        for _ in range(60):
            argument = {"name": "", "arg": {"as_graph": {"name": "inner", "graph": graph}}}
            node = {"target": "torch.ops.higher_order.cond", "inputs": [argument], "outputs": [], "metadata": {}}
            graph = {"inputs": [], "outputs": [], "nodes": [node], "tensor_values": {}}
        program["graph_module"]["graph"]["nodes"] += graph["nodes"]

    operators = described(original).parts[0].operators
    deeper = described(with_program(original, tmp_path / "deep.pt2", nest)).parts[0].operators
    assert operators is not None
    assert deeper == operators + 60


def test_the_caps_hold(original: Path) -> None:
    with pytest.raises(CapExceededError, match="graph_nodes"):
        described(original, Caps(graph_nodes=2))
    with pytest.raises(CapExceededError, match="header_bytes"):
        described(original, Caps(header_bytes=8_000))
    small = described(original, Caps(value_bytes=4))
    assert {gap.where for gap in small.gaps} >= {"norm.running_mean", "norm.weight"}
