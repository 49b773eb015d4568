"""The runner of graphs: what it takes, what it says, what it leaves behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_builders import FLOAT, PARAMETERS, describe, model, node
from onnx_sessions import batch, normal, opened, subject

from bnaudit.description import Carrier, Description, Part
from bnaudit.records import replace
from bnaudit.run_options import RunOptions
from bnaudit.runners import Subject, runners
from bnaudit.runners.onnxruntime import RUNNER
from bnaudit.session import Mode, Watch

SAMPLES = Path(__file__).parents[2] / "sample_models"
NORM = ["x", *PARAMETERS]


def test_the_registry_finds_it() -> None:
    assert "onnxruntime" in {runner.name for runner in runners()}


def test_graphs_run_without_being_asked_for(tmp_path: Path) -> None:
    description = describe(model([node("Relu", ["x"])]), tmp_path)
    path = tmp_path / "model.onnx"
    assert RUNNER.permits(Subject(path, description, RunOptions())) == ""
    assert RUNNER.permits(Subject(path, description, RunOptions(static=True))) == "--static was given"
    assert RUNNER.permits(Subject(path, description, RunOptions(model="net.py:build"))) is None
    assert RUNNER.permits(Subject(None, None, RunOptions())) is None


@pytest.mark.parametrize("carrier", [each for each in Carrier if each is not Carrier.GRAPH])
def test_other_artifacts_are_other_runners(tmp_path: Path, carrier: Carrier) -> None:
    description = describe(model([node("Relu", ["x"])]), tmp_path)
    other = replace(description, parts=(Part(name="", carrier=carrier),))
    assert RUNNER.permits(Subject(tmp_path / "model.onnx", other, RunOptions())) is None
    empty: Description = replace(description, parts=())
    assert RUNNER.permits(Subject(tmp_path / "model.onnx", empty, RunOptions())) is None


def nested() -> onnx.ModelProto:
    """A norm in a branch, one in a function, and one in the main graph."""
    body = helper.make_graph(
        [node("BatchNormalization", NORM, ["inner"], name="hidden")],
        "b",
        [],
        [helper.make_tensor_value_info("inner", FLOAT, None)],
    )
    function = helper.make_function(
        "mine",
        "Block",
        NORM,
        ["out"],
        [node("BatchNormalization", NORM, ["out"], name="called")],
        [helper.make_opsetid("", 17)],
    )
    second = {f"second.{name.partition('.')[2]}": array for name, array in PARAMETERS.items()}
    nodes = [
        node("If", ["yes"], ["chosen"], then_branch=body, else_branch=body, name="choice"),
        node("Block", ["chosen", *PARAMETERS], ["f"], domain="mine", name="block"),
        node("BatchNormalization", ["f", *second], name="plain"),
    ]
    tensors = {**PARAMETERS, **second, "yes": np.array(True)}
    return model(nodes, tensors, functions=[function], domains={"mine": 1})


def test_norms_that_cannot_be_watched_are_said(tmp_path: Path) -> None:
    with opened(nested(), tmp_path) as session:
        assert len(session.part.layers) == 4
        (remark,) = session.remarks
        assert remark.endswith("inside branches, loops or functions: not measured")
        assert "3" not in remark and remark.startswith("norm layers ")
        (call,) = session.run(batch(normal(3, 4, 8, 8)), watch=Watch.ROWS).norm_calls
        assert call.layer == session.part.layers[-1].name == "second"
        trained = session.run(batch(normal(3, 4, 8, 8)), Mode.TRAINING_NORMS)
        assert trained.norm_calls[0].uses_batch


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*/*.onnx")), ids=lambda path: path.stem)
def test_samples_run_in_every_way_with_the_names_of_the_description(path: Path) -> None:
    asked = subject(path)
    assert asked.description is not None
    with RUNNER.open(asked) as session:
        shape = session.signatures[0][0].shape
        assert shape is not None
        x = batch(normal(session.fixed_batch or 6, *(size for size in shape[1:] if isinstance(size, int))))
        layers = [layer.name for _, layer in asked.description.layers]
        for mode in session.modes:
            for watch in Watch:
                trace = session.run(x, mode, watch)
                assert all(np.isfinite(output.values).all() for output in trace.outputs)
                assert [call.layer for call in trace.norm_calls] == ([] if watch is Watch.NOTHING else layers)


def test_nothing_is_printed(tmp_path: Path) -> None:
    """onnxruntime warns in C++, past Python's own streams, of graphs such as this one."""
    proto = model([node("BatchNormalization", NORM), node("Relu", ["x"], ["unused"])], PARAMETERS, opset=9)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(normal(8), "not needed"))
    for name, array in PARAMETERS.items():
        proto.graph.input.append(helper.make_tensor_value_info(name, FLOAT, array.shape))
    proto.graph.output[0].type.tensor_type.shape.dim.add().dim_value = 3
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    code = (
        "import sys; sys.path.insert(0, 'tests'); from pathlib import Path; "
        "from onnx_sessions import batch, normal, opened; from bnaudit.session import Mode, Watch\n"
        f"with opened(Path({str(path)!r}), Path()) as session:\n"
        "    for watch in Watch: session.run(batch(normal(2, 4, 8, 8)), watch=watch)\n"
        "    session.run(batch(normal(2, 4, 8, 8)), Mode.TRAINING_NORMS)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=SAMPLES.parent, env=None
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_a_seed_is_not_left_behind(tmp_path: Path) -> None:
    """The seed of onnxruntime is one for the whole process: what is drawn afterwards does not follow from ours."""
    import onnxruntime

    proto = model([node("RandomNormalLike", ["x"])])
    x = normal(2, 4, 8, 8)
    drawn = []
    for _ in range(2):
        with opened(proto, tmp_path) as session:
            session.run(batch(x), seed=1)
        drawn.append(onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})[0])
    assert (drawn[0] != drawn[1]).any()


def test_the_file_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(model([node("BatchNormalization", NORM)], PARAMETERS).SerializeToString())
    before = path.read_bytes()
    with opened(path, tmp_path) as session:
        for mode in session.modes:
            session.run(batch(normal(2, 4, 8, 8)), mode, Watch.ROWS)
    assert path.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["model.onnx"]
