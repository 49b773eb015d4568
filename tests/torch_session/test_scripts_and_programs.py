"""TorchScript, exported programs and pickled modules."""

from __future__ import annotations

import copy
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torchscript_builders import rewritten

from bnaudit import describe
from bnaudit.description import Carrier
from bnaudit.errors import UnreadableError
from bnaudit.run_options import RunOptions
from bnaudit.session import Batch, Mode, RunError, Session
from bnaudit.torch_session.opening import opened
from sample_models import digits

IMAGES = np.random.default_rng(0).random((4, 1, 8, 8), dtype=np.float32)
BATCH = Batch(args=(IMAGES,), size=4, anchors=(0, 2, 3))


def session_of(path: Path, **options: Any) -> Any:
    return opened(path, describe(path), RunOptions(run=True, **options))


def used() -> nn.Module:
    torch.manual_seed(1)
    net = digits.build()
    net(torch.rand(16, 1, 8, 8))
    return net


def expected(net: nn.Module) -> np.ndarray[Any, Any]:
    with torch.no_grad():
        output: np.ndarray[Any, Any] = net(torch.from_numpy(IMAGES)).numpy()
    return output


def check_training_form(session: Session, net: nn.Module) -> None:
    """A graph computes in a copy what a module computes with its norms in train()."""
    before = session.run(BATCH).outputs[0].values
    first, again = (session.run(BATCH, Mode.TRAINING_NORMS) for _ in range(2))
    other = copy.deepcopy(net).train()
    other.dropout.eval()
    assert np.allclose(first.outputs[0].values, expected(other), atol=1e-5)
    assert [(call.layer, call.uses_batch) for call in first.norm_calls][:1] == [("bn1", True)]
    assert np.array_equal(first.outputs[0].values, again.outputs[0].values)
    assert first.changes == again.changes != ()
    assert np.array_equal(session.run(BATCH).outputs[0].values, before)


class Remembering(nn.Module):
    """Keeps state in every kind of attribute that TorchScript has."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0
        self.history = torch.jit.Attribute([1], list[int])
        self.table = torch.jit.Attribute({"a": torch.zeros(1)}, dict[str, torch.Tensor])
        self.hidden = torch.zeros(1)
        self.register_buffer("kept", torch.zeros(1))
        self.linear = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        self.history.append(self.steps)
        self.table["a"] = self.table["a"] + 1
        self.hidden = self.hidden + x.mean()
        self.kept = self.kept + 1
        total = self.hidden + self.kept + self.table["a"] + float(len(self.history)) + float(self.steps)
        return self.linear(x) * 0 + total


class TestScripts:
    def test_scripted_obeys_eval(self, tmp_path: Path) -> None:
        net = used()
        torch.jit.save(torch.jit.script(net), tmp_path / "a.pt")
        with session_of(tmp_path / "a.pt") as session:
            assert session.carrier is Carrier.SCRIPT
            assert session.modes == set(Mode)
            assert np.allclose(session.run(BATCH).outputs[0].values, expected(net.eval()), atol=1e-6)
            training = session.run(BATCH, Mode.TRAINING_NORMS)
            net.train()
            net.dropout.eval()
            assert np.allclose(training.outputs[0].values, expected(net), atol=1e-6)
            assert {change.kind for change in training.changes} == {"buffer"}
            assert "bn1.running_mean" in {change.name for change in training.changes}
            assert session.trained().layers[0].training is True

    def test_traced_has_its_modes_in_the_code(self, tmp_path: Path) -> None:
        net = used().eval()
        torch.jit.save(torch.jit.trace(net, torch.rand(2, 1, 8, 8)), tmp_path / "a.pt")
        with session_of(tmp_path / "a.pt") as session:
            assert session.modes == {Mode.INFERENCE, Mode.TRAINING_NORMS}
            assert session.trained() is None
            assert np.allclose(session.run(BATCH).outputs[0].values, expected(net), atol=1e-6)
            check_training_form(session, net)

    def test_frozen(self, tmp_path: Path) -> None:
        net = used().eval()
        torch.jit.save(torch.jit.freeze(torch.jit.script(net)), tmp_path / "a.pt")
        with session_of(tmp_path / "a.pt") as session:
            assert session.modes == {Mode.INFERENCE}
            assert np.allclose(session.run(BATCH).outputs[0].values, expected(net), atol=1e-5)

    def test_attributes_are_restored(self, tmp_path: Path) -> None:
        torch.jit.save(torch.jit.script(Remembering()), tmp_path / "a.pt")
        batch = Batch(args=(np.ones((2, 4), np.float32),), size=2, anchors=(0, 1))
        with session_of(tmp_path / "a.pt") as session:
            first = session.run(batch)
            again = session.run(batch, restored=False)
            restored = session.run(batch)
        assert {change.name for change in first.changes} == {"steps", "history", "table", "hidden", "kept"}
        assert not np.array_equal(first.outputs[0].values, again.outputs[0].values)
        assert np.array_equal(first.outputs[0].values, restored.outputs[0].values)
        assert first.changes == restored.changes

    def test_a_live_script_is_left_as_it_was(self) -> None:
        model = torch.jit.script(Remembering())
        batch = Batch(args=(np.ones((2, 4), np.float32),), size=2, anchors=(0, 1))
        with opened(None, None, RunOptions(model=model)) as session:
            session.run(batch)
        assert (model.steps, model.history, model.table["a"].item()) == (0, [1], 0.0)
        assert (model.hidden.item(), model.kept.item(), model.training) == (0.0, 0.0, True)

    def test_errors_are_those_of_the_script(self, tmp_path: Path) -> None:
        torch.jit.save(torch.jit.script(digits.build()), tmp_path / "a.pt")
        wrong = Batch(args=(np.ones((2, 3), np.float32),), size=2, anchors=(0, 1))
        with session_of(tmp_path / "a.pt") as session, pytest.raises(RunError) as raised:
            session.run(wrong)
        assert "RuntimeError" in str(raised.value) and "Traceback" not in str(raised.value)

    def test_a_broken_archive_is_unreadable(self, tmp_path: Path) -> None:
        path = tmp_path / "a.pt"
        torch.jit.save(torch.jit.script(nn.Linear(2, 2)), path)
        description = describe(path)
        path.write_bytes(path.read_bytes()[:-200])
        with pytest.raises(UnreadableError, match=r"torch\.jit\.load"), opened(path, description, RunOptions(run=True)):
            pass

    def test_numbers_beside_tensors(self, tmp_path: Path) -> None:
        class Scaled(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.linear = nn.Linear(4, 2)

            def forward(self, x: torch.Tensor, rate: int) -> torch.Tensor:
                return self.linear(x) * float(rate)

        torch.jit.save(torch.jit.script(Scaled()), tmp_path / "a.pt")
        with session_of(tmp_path / "a.pt") as session:
            assert [(i.name, i.dtype, i.shape) for i in session.signatures[0]] == [
                ("x", "float32", (None, 4)),
                ("rate", "int64", ()),
            ]
            args = (np.ones((2, 4), np.float32), np.array(3))
            one = session.run(Batch(args=args, size=2, anchors=(0, 1))).outputs[0].values
            plain = session.run(Batch(args=(args[0], 3), size=2, anchors=(0, 1))).outputs[0].values
        assert np.array_equal(one, plain)


class TestPrograms:
    def exported(self, net: nn.Module, path: Path, size: int | None = None) -> Path:
        axes = None if size else ({0: torch.export.Dim("batch", min=1, max=64)},)
        example = torch.rand(size or 4, 1, 8, 8)
        torch.export.save(torch.export.export(net, (example,), dynamic_shapes=axes), path)
        return path

    def test_free_batch(self, tmp_path: Path) -> None:
        net = used().eval()
        with session_of(self.exported(net, tmp_path / "a.pt2")) as session:
            assert session.carrier is Carrier.PROGRAM
            assert session.modes == {Mode.INFERENCE, Mode.TRAINING_NORMS}
            check_training_form(session, net)
            assert session.fixed_batch is None
            ((symbol, limits),) = session.dims.items()
            assert limits == (1, 64)
            assert session.signatures[0][0].shape == (symbol, 1, 8, 8)
            assert session.sample is not None and session.sample.size == 4
            assert np.allclose(session.run(BATCH).outputs[0].values, expected(net), atol=1e-6)
            assert session.run(session.sample).outputs[0].values.shape == (4, 10)
            assert session.trained() is None

    def test_fixed_batch(self, tmp_path: Path) -> None:
        with session_of(self.exported(used().eval(), tmp_path / "a.pt2", size=2)) as session:
            assert session.fixed_batch == 2
            with pytest.raises(RunError):
                session.run(BATCH)

    def test_exported_in_training_mode_changes_its_buffers(self, tmp_path: Path) -> None:
        with session_of(self.exported(used(), tmp_path / "a.pt2")) as session:
            first, again = (session.run(BATCH).changes for _ in range(2))
        assert "bn1.running_mean" in {change.name for change in first}
        assert first == again

    def test_inputs_in_a_tree_may_be_given_flat(self, tmp_path: Path) -> None:
        class Taking(nn.Module):
            def forward(self, pair: dict[str, torch.Tensor], *, scale: torch.Tensor) -> torch.Tensor:
                return pair["a"] + 2 * pair["b"] * scale

        one, two, scale = torch.rand(3, 2), torch.rand(3, 2), torch.rand(3, 1)
        program = torch.export.export(Taking(), ({"a": one, "b": two},), {"scale": scale})
        torch.export.save(program, tmp_path / "a.pt2")
        flat = Batch(args=(one.numpy(), two.numpy(), scale.numpy()), size=3, anchors=(0, 2))
        with session_of(tmp_path / "a.pt2") as session:
            assert np.array_equal(session.run(flat).outputs[0].values, (one + 2 * two * scale).numpy())
            assert session.sample is not None and set(session.sample.kwargs) == {"scale"}

    def test_a_live_program(self) -> None:
        net = used().eval()
        program = torch.export.export(net, (torch.rand(4, 1, 8, 8),))
        with opened(None, None, RunOptions(model=program)) as session:
            assert next(layer.name for layer in session.part.layers) == "bn1"
            assert np.allclose(session.run(BATCH).outputs[0].values, expected(net), atol=1e-6)


class TestPickledModules:
    def test_a_module_inside_a_checkpoint(self, tmp_path: Path) -> None:
        net = used()
        torch.save({"epoch": 1, "ema": net}, tmp_path / "a.pt")
        with session_of(tmp_path / "a.pt", trust_pickle=True) as session:
            assert session.part.name == "ema" and session.carrier is Carrier.MODULE
            assert Mode.AS_SAVED in session.modes
            assert np.array_equal(session.run(BATCH).outputs[0].values, expected(net.eval()))

    def test_a_class_that_is_not_there(self, tmp_path: Path) -> None:
        path = tmp_path / "a.pt"
        torch.save(used(), path)
        description = describe(path)
        path.write_bytes(path.read_bytes().replace(b"sample_models.digits", b"sample_models.digitz"))
        with pytest.raises(UnreadableError, match="digitz"), opened(path, description, RunOptions(trust_pickle=True)):
            pass


class Layout(Enum):
    FIRST = 1
    LAST = 2


class WithEnum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layout = Layout.FIRST
        self.bn = nn.BatchNorm2d(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.bn(x) if self.layout == Layout.FIRST else x


def test_a_script_with_a_member_of_an_enum_runs_in_both_modes(tmp_path: Path) -> None:
    """Python is not given the value: the class is in the file alone, and in no module that it could import."""
    written = tmp_path / "written.pt"
    torch.jit.script(WithEnum()).save(str(written))
    path = rewritten(written, tmp_path / "net.pt", {"": lambda data: data.replace(b"Layout", b"Layer_")})
    loaded = torch.jit.load(str(path))
    with pytest.raises(RuntimeError, match="Unknown reference to ScriptClass"):
        loaded._c.getattr("layout")
    with session_of(path) as session:
        first, trained, again = session.run(BATCH), session.run(BATCH, Mode.TRAINING_NORMS), session.run(BATCH)
        assert np.array_equal(first.outputs[0].values, again.outputs[0].values)
        assert not np.array_equal(first.outputs[0].values, trained.outputs[0].values)
