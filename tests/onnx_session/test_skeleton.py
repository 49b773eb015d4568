"""Models without their weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from onnx_builders import PARAMETERS, model, node
from onnx_sessions import batch, normal, opened, values

from bnaudit.errors import MalformedError, UnsafePathError
from bnaudit.onnx_session.skeleton import read_skeleton
from bnaudit.session import Watch

WEIGHT = normal(64, 64, 3, 3, seed=4)


def saved(folder: Path) -> Path:
    nodes = [node("Conv", ["x", "w"], ["c"]), node("Relu", ["c"])]
    path = folder / "model.onnx"
    path.write_bytes(model(nodes, {"w": WEIGHT}, inputs={"x": ("N", 64, 5, 5)}).SerializeToString())
    return path


def test_large_weights_stay_in_the_file(tmp_path: Path) -> None:
    path = saved(tmp_path)
    skeleton = read_skeleton(path)
    assert skeleton.ByteSize() < 1000 < WEIGHT.nbytes
    (tensor,) = skeleton.graph.initializer
    where = {entry.key: entry.value for entry in tensor.external_data}
    offset, length = int(where["offset"]), int(where["length"])
    assert path.read_bytes()[offset : offset + length] == WEIGHT.tobytes()
    assert (where["location"], list(tensor.dims)) == ("model.onnx", list(WEIGHT.shape))


def test_a_session_of_the_skeleton_computes_the_same(tmp_path: Path) -> None:
    path, x = saved(tmp_path), normal(2, 64, 5, 5)
    with opened(path, tmp_path) as session:
        trace = session.run(batch(x), watch=Watch.ROWS)
        assert len(trace.operators) == 2
        plain = onnxruntime.InferenceSession(str(path)).run(None, {"x": x})[0]
        np.testing.assert_allclose(values(trace), plain, rtol=1e-5, atol=1e-4)


def test_everything_else_is_as_onnx_reads_it(tmp_path: Path) -> None:
    proto = model([node("BatchNormalization", ["x", *PARAMETERS])], PARAMETERS)
    proto.metadata_props.add(key="note", value="kept")
    proto.graph.node[0].attribute.append(onnx.helper.make_attribute("epsilon", 0.25))
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    assert read_skeleton(path) == proto


def test_a_file_behind_a_link_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    target = saved(tmp_path / "cache")
    link = tmp_path / "linked.onnx"
    try:
        link.symlink_to(target)
    except OSError:
        pytest.skip("no links here")
    np.testing.assert_array_equal(numpy_helper.to_array(read_skeleton(link).graph.initializer[0]), WEIGHT)
    with opened(link, tmp_path) as session:
        assert len(session.run(batch(normal(2, 64, 5, 5)), watch=Watch.ROWS).operators) == 2


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/passwd"])
def test_weights_outside_the_folder_are_refused(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    path = saved(folder)
    proto = onnx.load(path)
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    (tmp_path / "secret.bin").write_bytes(WEIGHT.tobytes())
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(UnsafePathError, match="external data"), opened(path, folder):
        pass


def test_a_name_that_is_no_text_is_told(tmp_path: Path) -> None:
    path = saved(tmp_path)
    data = path.read_bytes()
    assert data.count(b"Relu") >= 1
    path.write_bytes(data.replace(b"Relu", b"\xff\xfelu"))
    with pytest.raises(MalformedError, match="is no text"):
        read_skeleton(path)
