from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from builders import batch_norm, hits, part, tensor

from bnaudit import arithmetic
from bnaudit.description import NormKind
from bnaudit.results import Severity
from bnaudit.rules import load_rule

RULE = "bn112_uneven_batch_counters"
run = partial(hits, RULE)


def counted(**counters: Any) -> list[Any]:
    return [batch_norm(name, counter=counter) for name, counter in counters.items()]


def test_different_counters_are_one_note() -> None:
    (hit,) = run(part(counted(a=50, b=100, c=50)))
    assert (hit.layer, hit.value) == (None, 2)
    assert hit.message == "counters differ: 50 in 2 layers, 100 (2 ×) in b"
    assert load_rule(RULE).severity is Severity.NOTE


def test_the_readings_come_in_order_of_likelihood() -> None:
    (hit,) = run(part(counted(a=50, b=100)))
    readings = ["shared by k inputs", "checkpointing", "two forwards", "frozen", "unused"]
    places = [hit.advice.index(reading) for reading in readings]
    assert places == sorted(places)


def test_only_exact_multiples_are_called_so() -> None:
    (hit,) = run(part(counted(a=50, b=50, c=101, d=150, e=20)))
    assert hit.message == "counters differ: 50 in 2 layers, 20 in e, 101 in c, 150 (3 ×) in d"


def test_long_lists_are_cut() -> None:
    (hit,) = run(part([batch_norm(f"bn{i}", counter=i + 1) for i in range(30)]))
    assert hit.message.endswith(", …")
    assert hit.value == 30


@pytest.mark.parametrize("count", [0, 1, 92385])
def test_equal_counters_are_silent(count: int) -> None:
    assert run(part(counted(a=count, b=count, c=count))) == []


def test_layers_that_never_ran_are_left_to_bn103() -> None:
    virgin = batch_norm("aux", mean=(0, 0, 0), var=(1, 1, 1), counter=0)
    assert run(part([*counted(a=50, b=50), virgin])) == []
    ported = batch_norm("aux", counter=0)
    assert len(run(part([*counted(a=50, b=50), ported]))) == 1


@pytest.mark.parametrize("counter", [None, -1, 0.5, float("nan")])
def test_missing_and_corrupt_counters_are_left_out(counter: Any) -> None:
    stored = None if counter is None else tensor("b.num_batches_tracked", counter, "float32")
    assert run(part([*counted(a=50), batch_norm("b", counter=stored)])) == []


@pytest.mark.parametrize("kind", [NormKind.INSTANCE, NormKind.UNKNOWN])
def test_other_norms_are_left_out(kind: NormKind) -> None:
    assert run(part([*counted(a=50), batch_norm("b", counter=0, kind=kind)])) == []


def test_parts_are_judged_alone() -> None:
    assert run(part(counted(a=50), "model"), part(counted(a=7), "ema")) == []


def test_checkpointing_counts_twice() -> None:
    from torch.utils.checkpoint import checkpoint

    plain, inside = torch.nn.BatchNorm1d(3), torch.nn.BatchNorm1d(3)
    for _ in range(5):
        x = torch.randn(8, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
        checkpoint(inside, plain(x), use_reentrant=False).sum().backward()
    assert (plain.num_batches_tracked.item(), inside.num_batches_tracked.item()) == (5, 10)
    counters = {"plain": plain.num_batches_tracked.item(), "inside": inside.num_batches_tracked.item()}
    (hit,) = run(part(counted(**counters)))
    assert "10 (2 ×) in inside" in hit.message


def test_the_pages_arithmetic() -> None:
    assert 1 - arithmetic.residual_share(0.1, 2) == pytest.approx(0.19)
    slower = 1 - 0.9**0.5
    assert round(slower, 4) == 0.0513
    assert arithmetic.residual_share(slower, 2) == pytest.approx(arithmetic.residual_share(0.1, 1))


def test_three_other_counts_are_shown() -> None:
    (hit,) = run(part(counted(a=50, b=50, c=60, d=70, e=80)))
    assert hit.message == "counters differ: 50 in 2 layers, 60 in c, 70 in d, 80 in e"
    (hit,) = run(part(counted(a=50, b=50, c=60, d=70, e=80, f=90)))
    assert hit.message == "counters differ: 50 in 2 layers, 60 in c, 70 in d, 80 in e, …"
    assert (hit.value, hit.limit) == (5, 1)


def test_a_layer_that_ran_counts_whatever_its_statistics() -> None:
    ran = batch_norm("aux", mean=(0, 0, 0), var=(1, 1, 1), counter=7)
    assert len(run(part([*counted(a=50, b=50), ran]))) == 1


def test_zero_is_a_multiple_of_nothing_and_nothing_of_zero() -> None:
    (hit,) = run(part(counted(a=50, b=50, c=0)))
    assert hit.message == "counters differ: 50 in 2 layers, 0 in c"
    (hit,) = run(part(counted(a=0, b=0, c=50)))
    assert hit.message == "counters differ: 0 in 2 layers, 50 in c"


def test_the_root_has_a_name_too() -> None:
    (hit,) = run(part([batch_norm("", counter=7), *counted(a=50, b=50)]))
    assert hit.message == "counters differ: 50 in 2 layers, 7 in the model itself"
