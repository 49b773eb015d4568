from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from builders import batch_norm, description, part
from fake_runs import FakeSession, Net, pool
from subjects import SAMPLES

import bnaudit
import bnaudit.runners
from bnaudit.description import Carrier, Description
from bnaudit.errors import UnreadableError
from bnaudit.measuring import Run, run
from bnaudit.progress import Silent
from bnaudit.results import Outcome, Question
from bnaudit.run_options import RunOptions
from bnaudit.runners import Runner, Subject
from bnaudit.session import NotPossibleError, RunError, Session, Trace

GRAPH = description(part([batch_norm(graph_training=False)], carrier=Carrier.GRAPH))
PROBES = frozenset({"neighbours"})


def use(monkeypatch: pytest.MonkeyPatch, opened: Any, permission: str | None = "") -> None:
    """Let one runner open this session, or raise this error."""

    @contextmanager
    def open_session(subject: Subject) -> Iterator[Session]:
        if isinstance(opened, BaseException):
            raise opened
        yield cast(Session, opened)

    runner = Runner(name="fake", permits=lambda subject: permission, open=open_session)
    monkeypatch.setattr(bnaudit.runners, "runners", lambda: iter([runner]))


def measure(subject: Description | None = GRAPH, **options: Any) -> Run:
    given = {"inputs": pool(40), **options}
    return run(Path("model.onnx"), subject, RunOptions(**given), PROBES, Silent())


def test_a_model_that_runs_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeSession())
    ran = measure()
    assert ran.measured is not None
    assert (ran.measured.runner, ran.measured.synthetic, ran.measured.batch_size) == ("NumPy", False, 16)
    assert ran.measured.forwards <= 8
    assert ran.measured.extra_forwards == 0
    assert set(ran.measured.answers) == {q for q in Question if q is not Question.BUFFERS} - {Question.FROZEN}
    assert not ran.lacks({"neighbours", "train_eval_gap"})


def test_nothing_runs_when_that_is_asked_or_no_rule_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, AssertionError("it was opened"))
    assert measure(static=True).why_not == "--static was given"
    assert "no selected rule" in run(Path("m.onnx"), GRAPH, RunOptions(), frozenset(), Silent()).why_not
    state_dict = run(Path("m.pt"), description(part([batch_norm()])), RunOptions(), PROBES, Silent())
    assert state_dict.needs == "the model: --model file.py:factory"


def test_what_is_not_allowed_says_what_allows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeSession(), "--run: a script is a program")
    ran = measure()
    assert (ran.why_not, ran.needs) == ("it needs --run: a script is a program", "--run: a script is a program")
    assert not ran.failed
    assert ran.lacks({"neighbours"}) == ran.needs
    use(monkeypatch, FakeSession(), None)
    assert measure().why_not == "nothing here can run it"
    with_model = measure(model="net.py:build")
    assert "a graph is run as it is" in with_model.why_not
    assert with_model.needs == "a run without --model"


def test_a_budget_of_nothing_leaves_every_probe_open(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeSession())
    ran = measure(budget=0.0)
    assert ran.measured is not None
    assert ran.measured.forwards <= 1
    assert all(stopped.inconclusive and "budget of 0 s" in stopped.why for stopped in ran.measured.unmeasured)
    assert "neighbours" in {stopped.probe for stopped in ran.measured.unmeasured}
    assert ran.lacks({"neighbours"}) == "more time: --budget"


class Interrupted(FakeSession):
    """The user presses Ctrl-C in the forward with this number."""

    at = 3

    def run(self, *arguments: Any, **options: Any) -> Trace:
        if len(self.runs) + 1 >= self.at:
            raise KeyboardInterrupt
        return super().run(*arguments, **options)


def test_what_was_found_before_an_interrupt_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Interrupted())
    ran = measure()
    assert ran.interrupted
    assert ran.measured is not None
    assert ran.measured.interrupted
    stopped = {entry.probe: entry.why for entry in ran.measured.unmeasured}
    assert stopped["neighbours"] == "interrupted"
    assert "repeats" not in ran.measured.probes or "repeats" not in stopped


def test_an_interrupt_before_anything_was_measured_keeps_the_static_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, KeyboardInterrupt())
    ran = measure()
    assert (ran.interrupted, ran.description, ran.measured) == (True, GRAPH, None)
    with pytest.raises(KeyboardInterrupt):
        measure(None)


@pytest.mark.parametrize(
    ("error", "failed"),
    [(UnreadableError("it is broken"), True), (NotPossibleError("memory is short"), False)],
)
def test_a_model_that_cannot_be_opened_says_why(
    error: Exception, failed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, error)
    ran = measure()
    assert (ran.why_not, ran.failed, ran.tried) == (str(error), failed, True)
    assert measure(inputs=None).failed is False
    with pytest.raises(type(error)):
        measure(None)


def test_inputs_that_the_model_refuses_are_shown_beside_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(FakeSession):
        def run(self, *arguments: Any, **options: Any) -> Trace:
            raise RunError("the model raised ValueError: 3 channels are needed", where="net.py:7")

    use(monkeypatch, Refusing())
    ran = measure()
    assert ran.failed
    assert "3 channels are needed" in ran.why_not
    assert "net.py:7" in ran.why_not
    assert "float32 (16, 9, 6)" in ran.why_not


def test_an_internal_failure_is_told_and_costs_only_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, ZeroDivisionError("by nothing"))
    (broken,) = measure().broken
    assert "ZeroDivisionError: by nothing at test_measuring.py:" in broken.error


def test_a_probe_that_breaks_is_told_and_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    class Breaking(FakeSession):
        def trained(self) -> None:
            raise LookupError("gone")

    use(monkeypatch, Breaking(Net()))
    ran = measure()
    assert [failed.name for failed in ran.broken] == ["probe updates"]
    assert ran.measured is not None
    assert "neighbours" in ran.measured.probes
    assert ran.lacks({"updates"}) == "the probe updates, which broke"


def test_numbers_of_a_run_are_no_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeSession())
    ran = measure()
    assert ran.measured is not None
    for measurement in ran.measured.measurements:
        for field in measurement._fields:
            assert not isinstance(getattr(measurement, field), np.ndarray)


def test_short_memory_is_a_sentence_and_no_internal_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, MemoryError("Unable to allocate 29.1 TiB"))
    ran = measure()
    assert (ran.failed, ran.tried, ran.broken) == (True, True, ())
    assert ran.why_not.startswith("memory is short: Unable to allocate 29.1 TiB: give a smaller --batch-size")
    with pytest.raises(UnreadableError, match="memory is short"):
        measure(None)


def test_two_runs_at_once_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """They set warning filters and seeds of the process, and may be runs of the same model."""
    inside = []

    class Counting(FakeSession):
        def run(self, *arguments: Any, **options: Any) -> Trace:
            inside.append(threading.get_ident())
            time.sleep(0.002)
            return super().run(*arguments, **options)

    use(monkeypatch, Counting())
    filters = list(warnings.filters)
    threads = [threading.Thread(target=measure) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    changes = sum(one != other for one, other in pairwise(inside))
    assert (len(set(inside)), changes) == (3, 2)
    assert warnings.filters == filters


def test_a_framework_that_is_missing_is_named_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn"))
    ran = measure()
    assert (ran.why_not, ran.failed) == ("torch is not installed: pip install torch", True)
    assert measure(inputs=None).failed is False, "nobody asked for a run"
    with pytest.raises(UnreadableError, match="torch is not installed: pip install torch"):
        measure(None)
    use(monkeypatch, ModuleNotFoundError("No module named 'numba'", name="numba"))
    assert measure().broken


class Listening:
    """Whom the audit tells what it does."""

    def __init__(self) -> None:
        self.forwards: list[str] = []
        self.layers: list[str] = []

    def artifact(self, path: Path, position: int, total: int) -> None:
        raise AssertionError("there is no file")

    def finished(self, code: int) -> None:
        raise AssertionError("there is no file")

    def forward(self, name: str, number: int, expected: int) -> None:
        self.forwards.append(f"{number}/{expected} {name}")

    def layer(self, name: str) -> None:
        self.layers.append(name)


def test_who_listens_is_told_the_forwards_and_the_layers() -> None:
    import torch

    net = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.BatchNorm1d(4)).eval()
    told = Listening()
    ran = run(None, None, RunOptions(model=net, inputs=pool(40)[:, 0]), PROBES, told)
    assert ran.measured is not None
    assert told.forwards[0] == "1/7 the batch"
    assert len(told.forwards) == ran.measured.forwards + ran.measured.extra_forwards
    assert told.layers[:3] == ["", "0", "1"]


def test_what_a_run_lacks_that_did_not_work_is_one_that_works() -> None:
    # Not the reason, which is no thing to give: "needs the model raised RuntimeError".
    tried = Run(description(), why_not="the model raised RuntimeError: boo", tried=True, failed=True)
    assert tried.lacks({"neighbours"}) == "a run that works"
    assert Run(description()).lacks({"neighbours"}) == "a run of the model"
    assert Run(description(), why_not="it needs --run", needs="--run").lacks({"neighbours"}) == "--run"


def test_a_budget_that_ends_before_a_rule_was_checked_leaves_its_verdict_open() -> None:
    given = {"inputs": Path(SAMPLES, "digits.npz"), "require": ("eval-mode",)}
    noisy = bnaudit.audit(Path(SAMPLES, "defects", "noisy_input.onnx"), **given, budget=1e-6)
    assert noisy.exit_code() == 3
    (verdict,) = noisy.audits[0].undecided
    assert verdict.outcome is Outcome.INCONCLUSIVE and "BN302" in verdict.reason
