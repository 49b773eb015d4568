"""External data: only the slices needed, and never a file outside the model's folder."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import external_data_helper
from onnx_builders import PARAMETERS, VAR, describe, describe_file, model, node

from bnaudit.errors import UnreadableError, UnsafePathError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.onnx.external import External, ExternalFiles

WEIGHT = np.zeros((512, 512, 3, 3), np.float32)


needs_posix = pytest.mark.skipif(os.name == "nt", reason="links and pipes need POSIX")


def network() -> onnx.ModelProto:
    nodes = [node("Conv", ["x", "w"], ["c"]), node("BatchNormalization", ["c", *PARAMETERS])]
    return model(nodes, {"w": WEIGHT, **PARAMETERS})


def outside(location: str, **entries: str) -> onnx.ModelProto:
    """The network with its variance in an external file."""
    proto = network()
    (tensor,) = (entry for entry in proto.graph.initializer if entry.name == "bn.running_var")
    external_data_helper.set_external_data(tensor, location)
    tensor.ClearField("raw_data")
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    return proto


@pytest.mark.parametrize("together", [True, False], ids=["one file", "a file each"])
def test_only_the_slices_of_norm_parameters_are_read(together: bool, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(network(), path, save_as_external_data=True, all_tensors_to_one_file=together, size_threshold=0)
    description = describe_file(path)
    (layer,) = description.parts[0].layers
    for tensor, name in zip(layer.tensors, PARAMETERS, strict=True):
        assert tensor.values is not None
        assert tensor.values.tolist() == PARAMETERS[name].tolist()
    assert not description.gaps
    assert description.artifact.size == sum(file.stat().st_size for file in tmp_path.iterdir())
    assert description.artifact.size > WEIGHT.nbytes
    assert description.artifact.bytes_read < 20_000


def test_offset_and_length_are_obeyed(tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(bytes(100) + VAR.tobytes() + bytes(50))
    (layer,) = describe(outside("data.bin", offset="100", length="16"), tmp_path).parts[0].layers
    assert layer.var is not None
    assert layer.var.tolist() == VAR.tolist()


def gap(proto: onnx.ModelProto, folder: Path) -> str:
    """Why the variance could not be read; everything else of the layer is there."""
    description = describe(proto, folder)
    (layer,) = description.parts[0].layers
    assert layer.running_var is not None
    assert (layer.running_var.values, layer.running_var.unread, layer.tracks_statistics) == (None, True, True)
    assert layer.mean is not None
    (found,) = description.gaps
    assert (found.where, found.hides_norms) == ("bn.running_var", False)
    return found.why


def test_a_missing_file_is_a_gap_that_says_what_to_do(tmp_path: Path) -> None:
    assert (
        gap(outside("model.onnx.data"), tmp_path)
        == "external data 'model.onnx.data' is missing: put it beside the model"
    )


ESCAPES = [
    "/etc/passwd",
    "../secret.bin",
    "sub/../../secret.bin",
    "..\\secret.bin",
    "C:\\secret.bin",
    "\\\\host\\x",
    "",
]


@pytest.mark.parametrize("location", [*ESCAPES, "a\0b"])
def test_locations_outside_the_folder_are_refused(location: str, tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(VAR.tobytes())
    (tmp_path / "sub").mkdir()
    assert "keep it in the model's folder" in gap(outside(location), tmp_path / "sub")


@needs_posix
def test_a_symbolic_link_that_leads_out_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(VAR.tobytes())
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "data.bin").symlink_to(tmp_path / "secret.bin")
    (folder / "inner").symlink_to(tmp_path)
    assert "leads out of the model's folder" in gap(outside("data.bin"), folder)
    assert "leads out of the model's folder" in gap(outside("inner/secret.bin"), folder)


@needs_posix
def test_links_of_a_download_cache_are_followed(tmp_path: Path) -> None:
    """The Hugging Face cache keeps blobs/<hash> and links to them from snapshots/<revision>/<name>."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "1"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    (blobs / "aa").write_bytes(outside("data.bin").SerializeToString())
    (blobs / "bb").write_bytes(VAR.tobytes())
    (snapshot / "model.onnx").symlink_to(blobs / "aa")
    (snapshot / "data.bin").symlink_to(blobs / "bb")
    (layer,) = describe_file(snapshot / "model.onnx").parts[0].layers
    assert layer.var is not None
    assert layer.var.tolist() == VAR.tolist()


@needs_posix
def test_a_link_in_a_circle_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "data.bin").symlink_to(tmp_path / "data.bin")
    assert "data.bin" in gap(outside("data.bin"), tmp_path)


@needs_posix
def test_folders_and_pipes_are_no_data(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in gap(outside("folder"), tmp_path)
    assert "not a regular file" in gap(outside("pipe"), tmp_path)


@pytest.mark.parametrize(
    "entries",
    [
        {"offset": "1"},
        {"offset": "99999999999"},
        {"length": "12"},
        {"offset": "-1"},
        {"offset": "four"},
        {"length": "1e3"},
        {"offset": "9" * 30},
    ],
    ids=str,
)
def test_slices_that_do_not_fit_are_a_gap(entries: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(VAR.tobytes())
    assert gap(outside("data.bin", **entries), tmp_path)


def test_one_gap_speaks_for_all_tensors_of_a_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(network(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    (tmp_path / "weights.bin").unlink()
    (found,) = describe_file(path).gaps
    assert found.where.endswith("and 3 more")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files where /proc shows them")
def test_many_files_do_not_stay_open_at_once(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"")
    for index in range(100):
        (tmp_path / f"{index}.bin").write_bytes(bytes([index]) * 4)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with ByteSource.open(tmp_path / "model.onnx") as source, ExternalFiles(source) as files:
        for index in range(100):
            assert files.read(External(f"{index}.bin"), 4) == bytes([index]) * 4
        during = len(list(Path("/proc/self/fd").iterdir()))
        assert files.bytes_read == 400
    assert during - before <= 33
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_the_path_check_names_its_errors(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"")
    with ByteSource.open(tmp_path / "model.onnx") as source, ExternalFiles(source) as files:
        with pytest.raises(UnsafePathError):
            files.path("../model.onnx")
        with pytest.raises(UnreadableError, match="missing"):
            files.path("other.bin")
        with pytest.raises(UnreadableError):
            files.path("n" * 5000)


def test_a_folder_below_the_model_is_inside(tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "part.bin").write_bytes(VAR.tobytes())
    (layer,) = describe(outside("weights/part.bin"), tmp_path).parts[0].layers
    assert layer.var is not None
