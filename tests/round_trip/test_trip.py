"""What a model loses between torch.save in one process and load_state_dict in the next."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bnaudit
from bnaudit.comparison import RoundTrip
from bnaudit.measuring import choose
from bnaudit.round_trip import round_trip
from bnaudit.run_options import RunOptions

HERE = Path(__file__).parent
INPUTS = np.random.default_rng(0).normal(size=(20, 3, 8, 8)).astype(np.float32)
FACTORY = f"{HERE / 'returning_nets.py'}:build"


@pytest.fixture(autouse=True)
def nets(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(HERE))
    import returning_nets

    yield returning_nets
    sys.modules.pop("returning_nets")


def _crossed(value: Any) -> Any:
    return pickle.loads(ForkingPickler.dumps(value))


@pytest.fixture
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What would cross to the fresh process and back crosses, without one: for what does not hang on its freshness."""

    def here(task: Callable[[Any, Any], Any], *given: Any) -> Any:
        return _crossed(task(*_crossed(given)))

    monkeypatch.setattr("bnaudit.round_trip.trip.in_fresh_process", here)


def trip(path: Path | None, **options: Any) -> RoundTrip:
    given = RunOptions(**{"inputs": INPUTS, **options})
    return round_trip(choose(path, bnaudit.describe(path) if path else None, given), given)


def whole(nets: Any, name: str, folder: Path) -> Path:
    path = folder / "whole.pt"
    torch.save(nets.trained(name), path)
    return path


def difference(found: RoundTrip) -> float:
    (output,) = found.outputs
    return output.shift.difference


def test_a_sound_model_comes_back_bit_for_bit(nets: Any, tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    torch.save(nets.trained("Sound").state_dict(), path)
    found = trip(path, model=FACTORY)
    assert (found.changed, found.not_done) == ((), "")
    assert found.outputs[0].shift.exact and len(found.outputs) == 1


def test_what_is_in_no_state_dict_does_not_come_back(nets: Any, tmp_path: Path) -> None:
    found = trip(whole(nets, "Lossy", tmp_path), model=FACTORY, model_args={"name": "Lossy"}, trust_pickle=True)
    assert found.changed == (
        "extra[0].weight",
        "extra[0].bias",
        "mean",
        "bn.running_var",
        "scale (2.0 → 1.0)",
        "steps (3 → 0)",
    )
    assert found.outputs[0].shift.difference > found.outputs[0].floor


@pytest.mark.usefixtures("one_process")
def test_a_factory_that_draws_is_found_from_its_state_dict_alone(nets: Any, tmp_path: Path) -> None:
    model = nets.trained("Lossy")
    path = tmp_path / "state.pt"
    torch.save(model.state_dict(), path)
    found = trip(path, model=FACTORY, model_args={"name": "Lossy"})
    assert found.changed == ("extra[0].weight", "extra[0].bias", "bn.running_var")


@pytest.mark.usefixtures("one_process")
def test_a_factory_with_another_epsilon_is_found(nets: Any, tmp_path: Path) -> None:
    path = whole(nets, "Sound", tmp_path)
    found = trip(path, model=f"{HERE / 'returning_nets.py'}:build_with_other_epsilon", trust_pickle=True)
    assert found.changed == ("bn.eps (1e-05 → 0.01)",)
    model = nets.trained("Sound").eval()
    one = model(torch.tensor(INPUTS))
    model.bn.eps = 1e-2
    other = model(torch.tensor(INPUTS))
    assert difference(found) == pytest.approx((one - other).abs().max().item(), rel=1e-3)


@pytest.mark.usefixtures("one_process")
def test_a_factory_of_another_model_has_no_place_for_what_was_saved(nets: Any, tmp_path: Path) -> None:
    path = whole(nets, "Sound", tmp_path)
    other = trip(path, model=f"{HERE / 'returning_nets.py'}:build_without_the_norm", trust_pickle=True)
    assert "bn.running_mean (no place for it)" in other.changed
    assert sum(text.startswith("bn.running_mean") for text in other.changed) == 1


def test_a_live_model_goes_whole_and_stays_as_it_was(nets: Any) -> None:
    model = nets.trained("Sound").train()
    model.bn.eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = trip(None, model=model)
    assert (found.changed, found.not_done) == ((), "")
    assert found.outputs[0].shift.exact
    assert model.training and not model.bn.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_what_another_process_cannot_do_is_one_sentence(nets: Any, tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    torch.save(nets.trained("Sound").state_dict(), path)
    died = trip(path, model=FACTORY, model_args={"name": "Deadly"})
    assert died.not_done == "the model could not be loaded again: its process ended with code 3"
    raised = trip(path, model=FACTORY, model_args={"name": "Broken"})
    assert "ValueError: no weights here" in raised.not_done
    unnamed = trip(None, model=lambda: nets.build())
    assert "cannot be imported by another process" in unnamed.not_done
    without = trip(path)
    assert "--model" in without.not_done
    assert all(not found.outputs and not found.changed for found in (died, raised, unnamed, without))


def test_a_graph_has_nothing_to_lose(tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    torch.jit.save(torch.jit.script(torch.nn.Linear(3, 2)), str(path))
    assert "carries its own code" in trip(path, run=True).not_done
