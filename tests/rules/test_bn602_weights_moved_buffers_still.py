from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from builders import part
from compared import compared_hits, trained

from bnaudit.results import Severity

run = partial(compared_hits, "bn602_weights_moved_buffers_still")


def scaled(factor: float) -> dict[str, np.ndarray]:
    layer = trained()
    return {"gamma": np.array(layer.gamma) * factor, "beta": np.array(layer.beta) * factor}


def test_weights_that_moved_alone_are_found() -> None:
    (hit,) = run(part([trained(), trained("bn2", **scaled(1.2))]), part([trained(), trained("bn2")]))
    assert (hit.layer, hit.severity) == ("bn2", None)
    assert hit.value == pytest.approx(0.2, rel=1e-3)
    assert "moved by 20 %" in hit.message


def test_training_moves_both() -> None:
    assert run(part([trained(seed=1)]), part([trained()])) == []


def test_nothing_moved() -> None:
    assert run(part([trained()]), part([trained()])) == []


@pytest.mark.parametrize(("factor", "severity"), [(1.049, Severity.NOTE), (1.051, None)])
@pytest.mark.parametrize("fields", [{"name": "state_dict_ema"}, {"averaged_over": 5}])
def test_averaged_weights_nearby_are_documented_behaviour(
    factor: float, severity: Severity | None, fields: dict[str, object]
) -> None:
    average = part([trained(**scaled(factor))], **fields)  # type: ignore[arg-type]
    for hits in (run(average, part([trained()])), run(part([trained(**scaled(1 / factor))]), average)):
        assert len(hits) == 1
    assert run(average, part([trained()]))[0].severity is severity
    assert run(part([trained(**scaled(factor))]), part([trained()]))[0].severity is None, "not an average"


def test_what_is_not_known_is_silent() -> None:
    assert run(part([trained(**scaled(1.2), mean=None, var=None)]), part([trained(mean=None, var=None)])) == []
    assert run(part([trained(gamma=None, beta=None)]), part([trained(gamma=None, beta=None)])) == []


def test_a_rounded_copy_of_the_weights_is_silent() -> None:
    halves = {name: np.float16(value).astype(float) for name, value in scaled(1.0).items()}
    assert run(part([trained(**halves)]), part([trained()])) == []


def test_the_pages_arithmetic() -> None:
    grown = np.array([1.2, 2.4, 3.6])  # 1, 2, 3 before: mean 2
    assert (grown.mean() - 2.0) / 1.0 == pytest.approx(0.4)
    assert grown.std() / np.std([1, 2, 3]) == pytest.approx(1.2)


def test_one_layer_far_away_makes_it_no_documented_behaviour() -> None:
    average = part([trained("bn1", **scaled(1.02)), trained("bn2", **scaled(1.2))], name="state_dict_ema")
    found = run(average, part([trained("bn1"), trained("bn2")]))
    assert [(hit.layer, hit.severity) for hit in found] == [("bn1", None), ("bn2", None)]
    assert all(hit.advice.startswith("measure statistics") for hit in found)
    (near,) = run(part([trained(**scaled(1.02))], name="state_dict_ema"), part([trained()]))
    assert near.advice.startswith("nothing to do")


@pytest.mark.parametrize(("limit", "severity"), [(0.5, Severity.NOTE), (0.499, None)])
def test_a_distance_exactly_at_the_limit_is_near(limit: float, severity: Severity | None) -> None:
    ones, zeros = np.ones(8), np.zeros(8)
    average = part([trained(gamma=ones * 1.5, beta=zeros)], name="state_dict_ema")
    (hit,) = run(average, part([trained(gamma=ones, beta=zeros)]), limits={"affine_difference": limit})
    assert (hit.severity, hit.value) == (severity, 0.5)


def test_a_distance_that_is_no_number_is_far() -> None:
    broken = trained().gamma.copy()
    broken[0] = np.nan
    (hit,) = run(part([trained(gamma=broken)], name="state_dict_ema"), part([trained()]))
    assert hit.severity is None


def test_the_channels_that_moved_most_come_first() -> None:
    gamma = trained().gamma.copy()
    gamma[5] *= 2
    (hit,) = run(part([trained(gamma=gamma)]), part([trained()]))
    assert hit.channels[0] == 5
