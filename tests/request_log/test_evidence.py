"""Each cause, simulated: the right one is first, and no wrong one is ever named alone."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from request_logs import MIXED, Requests

from bnaudit.diagnosis import Observed, ScoreKind
from bnaudit.observed import RequestLog
from bnaudit.records import replace
from bnaudit.request_log import evidence

CAUSES = {"companions": "companions", "randomness": "randomness", "strays": "history", "update": "history"}
RIGHT = pytest.mark.parametrize(("cause", "name"), CAUSES.items())


@cache
def served(cause: str, sizes: tuple[int, ...] = MIXED, count: int = 60, seed: int = 0) -> Requests:
    return Requests(cause, count, sizes=sizes, seed=seed)


@RIGHT
@pytest.mark.parametrize("sizes", [MIXED, (8,)])
def test_a_full_log_names_the_cause(cause: str, name: str, sizes: tuple[int, ...]) -> None:
    found = evidence(served(cause, sizes).log())
    assert found.points_to[:1] == (name,)
    assert found.differing > 0
    assert found.spread > found.limit


@RIGHT
def test_rounded_probabilities_name_it_too(cause: str, name: str) -> None:
    found = evidence(served(cause).log(kind=ScoreKind.PROBABILITIES, decimals=3))
    assert found.points_to[:1] == (name,)


@RIGHT
@pytest.mark.parametrize("lacking", ["requests", "sizes", "times", "requests and sizes"])
def test_a_poorer_log_never_names_a_wrong_cause_alone(cause: str, name: str, lacking: str) -> None:
    left_out = dict.fromkeys(lacking.split(" and "), False)
    found = evidence(served(cause, count=40).log(**left_out))
    assert not found.points_to or name in found.points_to
    if len(found.points_to) > 1:
        assert found.needs
        assert any("leaves" in reason for reason in found.reasons)


@RIGHT
def test_labels_never_name_a_wrong_cause_alone(cause: str, name: str) -> None:
    found = evidence(served(cause, count=40).log(kind=ScoreKind.LABELS))
    assert not found.points_to or name in found.points_to


@RIGHT
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_few_differing_inputs_never_name_a_wrong_cause_alone(cause: str, name: str, seed: int) -> None:
    found = evidence(served(cause, (2, 4, 8), 30, seed).log(kind=ScoreKind.PROBABILITIES, decimals=3))
    assert not found.points_to or name in found.points_to


@RIGHT
@pytest.mark.parametrize("seed", [1, 2])
def test_few_requests_never_name_a_wrong_cause_alone(cause: str, name: str, seed: int) -> None:
    found = evidence(served(cause, (2, 4), 12, seed).log())
    assert not found.points_to or name in found.points_to


@pytest.mark.parametrize("sizes", [MIXED, (1,), (8,)])
@pytest.mark.parametrize(
    ("kind", "decimals"),
    [(ScoreKind.LOGITS, None), (ScoreKind.LOGITS, 3), (ScoreKind.PROBABILITIES, 3), (ScoreKind.LABELS, None)],
)
def test_a_healthy_model_is_quiet(sizes: tuple[int, ...], kind: ScoreKind, decimals: int | None) -> None:
    found = evidence(served("healthy", sizes).log(kind=kind, decimals=decimals))
    assert found.points_to == ()
    assert found.differing == 0
    assert found.spread <= found.limit
    assert "none has scores further apart" in found.reasons[0]


def test_half_precision_proves_nothing_until_the_precision_is_known() -> None:
    log = served("healthy").log()
    noise = 1 + 1e-3 * np.random.default_rng(0).normal(size=log.observed.values.shape)
    noisy = replace(log, observed=replace(log.observed, values=log.observed.values * noise))
    found = evidence(noisy)
    assert found.differing > 0
    assert found.points_to == ()
    assert any("half-precision" in reason for reason in found.reasons)
    assert any("--precision" in need for need in found.needs)
    assert evidence(noisy, "fp16").differing == 0
    assert evidence(noisy, "fp32").points_to != ()


def test_inputs_sent_alone_rule_companions_out() -> None:
    found = evidence(served("randomness", (1,), 80).log())
    assert found.points_to[0] == "randomness"
    assert "companions" not in found.points_to
    assert any("sent alone" in reason for reason in found.reasons)


def test_companions_leave_inputs_alone_as_they_are() -> None:
    found = evidence(served("companions", (1,), 80).log())
    assert found.differing == 0
    assert any("beside different companions" in need for need in found.needs)


def test_scatter_falls_with_the_batch_size_and_is_nothing_alone() -> None:
    scatter = {size: value for size, _, value in evidence(served("companions").log()).scatter_by_size}
    assert scatter[1] == pytest.approx(0, abs=1e-6)
    assert scatter[2] > scatter[16] > 0.1


def made(values: list[list[float]], keys: str, requests: list[int] | None = None, **more: object) -> RequestLog:
    rows = np.array([ord(key) for key in keys])
    observed = Observed(
        values=np.array(values),
        kind=ScoreKind.LOGITS,
        rows=rows,
        requests=None if requests is None else np.array(requests),
    )
    return RequestLog(observed=observed, keys=tuple(keys), **more)


def test_one_input_twice_in_one_request_proves_randomness() -> None:
    found = evidence(made([[1.0, 2.0], [1.5, 2.5], [3.0, 4.0]], "aab", [0, 0, 0]))
    assert found.points_to == ("randomness",)
    assert found.examples == ("a",)
    assert found.spread == 0.5


def test_the_same_companions_and_other_scores_are_no_companions() -> None:
    values = [[1.0, 2.0], [3.0, 4.0], [1.5, 2.2], [3.3, 4.9], [1.9, 2.4], [3.1, 4.4]]
    found = evidence(made(values, "ababba", [0, 0, 1, 1, 2, 2], batch_sizes=np.full(6, 2)))
    assert "companions" not in found.points_to
    assert len(found.points_to) == 2


def test_a_log_without_repeats_says_what_to_log() -> None:
    found = evidence(made([[1.0, 2.0], [3.0, 4.0]], "ab"))
    assert (found.repeated, found.differing, found.points_to) == (0, 0, ())
    assert "observed more than once" in found.needs[0]


def test_two_differing_labels_may_be_ties() -> None:
    observed = Observed(values=np.array([1, 2, 3, 3]), kind=ScoreKind.LABELS, rows=np.array([0, 0, 1, 1]))
    found = evidence(RequestLog(observed=observed))
    assert found.points_to == ()
    assert "scores and not only labels" in found.needs


def test_values_that_were_not_logged_do_not_differ() -> None:
    found = evidence(made([[1.0, np.nan], [np.nan, 2.0], [1.0, 2.0]], "aaa"))
    assert found.differing == 0
