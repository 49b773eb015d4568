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
