"""Every kind of file is claimed by exactly one format: real files, made by the libraries that people use."""

from __future__ import annotations

import io
import pickle
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from exported_builders import as_torch_2_7, as_torch_2_8, export, saved
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from safetensors.torch import save_file
from torch import nn

from bnaudit.formats import Candidate, formats, identify
from bnaudit.reading.byte_source import ByteSource


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x))


def claiming(path: Path) -> list[str]:
    with ByteSource.open(path) as source:
        candidate = Candidate(path, source)
        found = [entry.name for entry in formats() if entry.is_read and entry.claims(candidate)]
        # The others are asked only when no format that is read claims the file.
        return found or [entry.name for entry in formats() if not entry.is_read and entry.claims(candidate)]


def _torch(path: Path, zipped: bool, protocol: int = 2) -> None:
    torch.save(Net().state_dict(), path, _use_new_zipfile_serialization=zipped, pickle_protocol=protocol)


def _script(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(Net()).save(str(path))


def _traced(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.freeze(torch.jit.trace(Net().eval(), torch.randn(1, 3, 4, 4))).save(str(path))


def _program() -> torch.export.ExportedProgram:
    return export(Net(), torch.randn(2, 3, 4, 4))


def _exported(path: Path) -> None:
    saved(_program(), path)


def _exported_2_8(path: Path) -> None:
    program = _program()
    as_torch_2_8(program, saved(program, path.with_name("new.pt2")), path)


def _exported_2_7(path: Path) -> None:
    program = _program()
    as_torch_2_7(program, saved(program, path.with_name("new.pt2")), path)


def _safetensors(path: Path) -> None:
    save_file(Net().state_dict(), path)


def _onnx(path: Path) -> None:
    names = ("x", "scale", "bias", "mean", "var")
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3] if name == "x" else [3]) for name in names]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    graph = helper.make_graph([helper.make_node("BatchNormalization", names, ["y"])], "g", inputs, [output])
    onnx.save(helper.make_model(graph), str(path))


def _npz(path: Path) -> None:
    np.savez(path, **{"norm.running_mean": np.zeros(3), "norm.running_var": np.ones(3)})


def _pickled(path: Path, protocol: int) -> None:
    weights = {"norm.running_mean": np.zeros(3), "norm.running_var": np.ones(3)}
    path.write_bytes(pickle.dumps(weights, protocol))


def _index(path: Path) -> None:
    path.write_text(
        '{"metadata": {"total_size": 4}, "weight_map": {"norm.weight": "model-00001-of-00001.safetensors"}}'
    )


def _tar(path: Path) -> None:
    with tarfile.open(path, "w") as archive:
        for name in ("sys_info", "pickle", "tensors", "storages"):
            archive.addfile(tarfile.TarInfo(name), io.BytesIO(b""))


def _zip_around(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("weights/best.pth", b"")


def _text(path: Path) -> None:
    path.write_text("Some notes on the model.\n")


FILES: list[tuple[str, Callable[[Path], None], str]] = [
    ("state.pt", lambda path: _torch(path, zipped=True), "PyTorch zip checkpoint"),
    ("legacy.pt", lambda path: _torch(path, zipped=False), "PyTorch legacy checkpoint"),
    ("text_legacy.pt", lambda path: _torch(path, zipped=False, protocol=0), "PyTorch legacy checkpoint"),
    ("scripted.pt", _script, "TorchScript"),
    ("frozen.pt", _traced, "TorchScript"),
    ("program.pt2", _exported, "torch.export program"),
    ("program_2_8.pt2", _exported_2_8, "torch.export program"),
    ("program_2_7.pt2", _exported_2_7, "torch.export program"),
    ("model.safetensors", _safetensors, "safetensors"),
    ("model.onnx", _onnx, "ONNX"),
    ("weights.npz", _npz, "NumPy .npz"),
    ("weights0.pkl", lambda path: _pickled(path, 0), "pickle"),
    ("weights2.pkl", lambda path: _pickled(path, 2), "pickle"),
    ("weights5.pkl", lambda path: _pickled(path, 5), "pickle"),
    ("model.safetensors.index.json", _index, "sharded checkpoint"),
    ("oldest.pt", _tar, "PyTorch tar checkpoint"),
    ("bundle.zip", _zip_around, "a format that is not read"),
    ("notes.txt", _text, "not a model"),
]


@pytest.mark.parametrize(("name", "write", "expected"), FILES, ids=[entry[0] for entry in FILES])
def test_one_format_claims_it_whatever_its_name(
    tmp_path: Path, name: str, write: Callable[[Path], None], expected: str
) -> None:
    path = tmp_path / name
    write(path)
    assert claiming(path) == [expected]
    if name.endswith(".index.json"):
        return  # the shards are found beside it
    other = path.rename(tmp_path / "model.weights")
    assert claiming(other) == [expected]


def test_every_format_that_reads_files_is_tried_here() -> None:
    for_folders = {"Hugging Face folder", "torch.distributed.checkpoint"}
    assert {entry.name for entry in formats()} - for_folders == {expected for _, _, expected in FILES}


def test_the_content_decides_and_not_the_ending(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    _safetensors(path)
    with ByteSource.open(path) as source:
        assert identify(Candidate(path, source)).name == "safetensors"


_STARTS = st.sampled_from(
    [b"", b"\x89HDF", b"\x08\x01\x12", b"\x0a\x10\x0a", b"{", b"<", b"\x1f\x8b", b"(", b"]", b"MZ"]
)
_NAMES = st.sampled_from(["a.pt", "a.h5", "a.engine", "a.pb", "a.json", "a.nemo", "a.tar.gz", "a.part", "a.bin", "a"])


@given(start=_STARTS, rest=st.binary(max_size=600), name=_NAMES)
@settings(max_examples=300)
def test_no_content_is_both_a_foreign_model_and_no_model(tmp_path: Path, start: bytes, rest: bytes, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(start + rest)
    claims = claiming(path)
    assert not {"a format that is not read", "not a model"} <= set(claims)
    assert len(claims) <= 1 or "not a model" not in claims


@given(text=st.text(max_size=300), name=_NAMES)
@settings(max_examples=200)
def test_text_is_never_claimed_twice(tmp_path: Path, text: str, name: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert len(claiming(path)) <= 1
