"""Two hypotheses at once, planted in plain PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from planted_causes import (
    Array,
    Change,
    both,
    epsilon,
    exchanged,
    filled,
    inputs,
    logged,
    lost,
    net,
    norms,
    scores,
    training,
)

from bnaudit.diagnosis import Conclusion
from bnaudit.run_options import RunOptions
from bnaudit.triaging import triage

N = tuple(norms(net()))


def as_given(x: Array) -> Array:
    return x


def once_more(x: Array) -> Array:
    return ((x - 0.5) / 0.5).astype(np.float32)


PAIRS: dict[tuple[str, str], tuple[Change, Callable[[Array], Array]]] = {
    ("training-mode + together", "epsilon:0.001 + any"): (both(training(), epsilon(1e-3)), as_given),
    ("ignored-bias + any", "lost-buffers + any"): (both(lost(), filled("bias", 0.0)), as_given),
    (f"training-mode + {N[1]}, {N[4]} + together", "epsilon:0.001 + any"): (
        both(training(N[1], N[4]), epsilon(1e-3)),
        as_given,
    ),
    ("training-mode + together", f"reordered-layers + {N[1]}, {N[2]} + any"): (
        both(training(), exchanged(N[1], N[2])),
        as_given,
    ),
    ("training-mode + together", "normalization-doubled:0.5-and-0.5 + any"): (training(), once_more),
    ("lost-buffers + any", "normalization-doubled:0.5-and-0.5 + any"): (lost(), once_more),
}


QUICK = list(PAIRS)[1:3]
CASES = [(pair, "float32") for pair in PAIRS] + [(pair, noise) for pair in QUICK for noise in ("rounded", "noisy")]


@pytest.mark.parametrize(("pair", "noise"), CASES, ids=[f"{' & '.join(pair)}-{noise}" for pair, noise in CASES])
def test_a_pair_is_found_with_the_layers_of_each(pair: tuple[str, str], noise: str) -> None:
    change, prepare = PAIRS[pair]
    observed = logged(scores(net(), prepare(inputs()), change), noise)
    found = triage(None, observed, RunOptions(model=net(), inputs=inputs(), budget=120))
    named = [set(each.hypothesis.singles) for each in found.explanations]
    assert set(pair) in named, (found.reason, named)
    assert found.conclusion in (Conclusion.EXPLAINED, Conclusion.UP_TO_PRECISION, Conclusion.SEVERAL)


def test_a_pair_of_which_one_hides_the_other_is_named_as_the_single() -> None:
    observed = logged(scores(net(), inputs(), both(lost(), training())), "float32")
    found = triage(None, observed, RunOptions(model=net(), inputs=inputs()))
    assert found.conclusion is Conclusion.EXPLAINED
    assert found.explanations[0].hypothesis.key == "training-mode + together"
