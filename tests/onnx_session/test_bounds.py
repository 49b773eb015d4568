"""A hostile graph is stopped: one that never ends, and one that asks for more memory than there is."""

from __future__ import annotations

import _thread
import signal
import sys
import time
from pathlib import Path
from threading import Timer
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_sessions import batch, opened

from bnaudit.forwards import BudgetSpent
from bnaudit.onnx_session import bounds
from bnaudit.onnx_session.bounds import stoppable, within_memory
from bnaudit.session import RunError, Session

X = np.ones((2, 4), np.float32)


def saved(path: Path, nodes: list[onnx.NodeProto], **constants: object) -> Path:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    held = [numpy_helper.from_array(np.array(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def endless(path: Path) -> Path:
    """A loop whose condition stays true."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Add", ["a", "one"], ["more"])],
        "body",
        [value("i", TensorProto.INT64, []), value("go", TensorProto.BOOL, []), value("a", TensorProto.FLOAT, None)],
        [value("on", TensorProto.BOOL, []), value("more", TensorProto.FLOAT, None)],
    )
    loop = helper.make_node("Loop", ["", "true", "x"], ["y"], body=body)
    return saved(path, [loop], true=True, one=np.float32(1))


def test_a_run_that_never_ends_is_stopped_by_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "SHORTEST", 0.2)
    began = time.monotonic()
    with opened(endless(tmp_path / "loop.onnx"), tmp_path, budget=0.1) as session:
        for _ in range(2):
            with pytest.raises(BudgetSpent, match=r"budget of 0\.1 s was spent within one forward.*--budget"):
                session.run(batch(X))
    assert time.monotonic() - began < 20


def test_a_run_that_never_ends_is_stopped_by_an_interrupt(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell started it behind

    def interrupted(session: Session) -> None:
        timer = Timer(0.3, _thread.interrupt_main)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            session.run(batch(X))
        timer.join()

    try:
        with opened(endless(tmp_path / "loop.onnx"), tmp_path) as session:
            interrupted(session)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(sys.platform != "linux", reason="no limit on addresses")
@pytest.mark.parametrize("share", [0.5, 2.0, 1e6])
def test_memory_that_is_not_there_is_an_error_of_the_graph(tmp_path: Path, share: float) -> None:
    import resource

    from bnaudit.available_memory import available_bytes

    before = resource.getrlimit(resource.RLIMIT_AS)
    limits = []
    free = available_bytes()
    assert free is not None
    count = int(2 * share * free / 4)  # twice what is there, at least when the share is a half
    nodes = [
        helper.make_node("ConstantOfShape", ["size"], ["huge"]),
        helper.make_node("ReduceSum", ["huge"], ["sum"], keepdims=0),
        helper.make_node("Add", ["x", "sum"], ["y"]),
    ]
    path = saved(tmp_path / "huge.onnx", nodes, size=np.array([count], np.int64))
    with opened(path, tmp_path) as session, pytest.raises(RunError, match="ConstantOfShape"):
        session.run(batch(X))
    limits.append(resource.getrlimit(resource.RLIMIT_AS))
    assert limits == [before]


@pytest.mark.skipif(sys.platform != "linux", reason="no limit on addresses")
def test_a_limit_of_the_users_own_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    monkeypatch.setattr(bounds, "_address_limit", lambda: 1 << 50)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 49, before[1]))
    try:
        with within_memory():
            assert resource.getrlimit(resource.RLIMIT_AS)[0] == 1 << 49
        monkeypatch.setattr(bounds, "_address_limit", lambda: 1 << 48)
        with pytest.raises(LookupError), within_memory():
            assert resource.getrlimit(resource.RLIMIT_AS)[0] == 1 << 48
            raise LookupError
        assert resource.getrlimit(resource.RLIMIT_AS)[0] == 1 << 49
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_results_and_errors_come_out_of_the_other_thread() -> None:
    options = SimpleNamespace(terminate=False)
    assert stoppable(lambda: 7, options, None) == 7
    with pytest.raises(ZeroDivisionError):
        stoppable(lambda: 1 // 0, options, 1.0)
    assert options.terminate is False
