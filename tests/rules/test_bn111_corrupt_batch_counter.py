from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from builders import batch_norm, hits, part, tensor

from bnaudit.description import NormKind, NormLayer

run = partial(hits, "bn111_corrupt_batch_counter")


def counted(value: Any, dtype: str, **fields: Any) -> NormLayer:
    return batch_norm(counter=tensor("bn1.num_batches_tracked", value, dtype), **fields)


@pytest.mark.parametrize(
    ("value", "dtype", "says", "shown"),
    [
        (1000.0, "float32", "stored as float32", 1000.0),
        (0.0, "bfloat16", "stored as bfloat16", 0.0),
        (1001.33, "float64", "fractional", 1001.33),
        (-1, "int64", "negative", -1),
        (-0.5, "float32", "negative", -0.5),
        (float("inf"), "float16", "not finite", "inf"),
        (float("-inf"), "float32", "not finite", "-inf"),
        (float("nan"), "float32", "not finite", "nan"),
        ((5, 5, 5), "int64", "several numbers", 3),
        ((), "int64", "several numbers or none", 0),
    ],
)
def test_what_is_not_a_count(value: Any, dtype: str, says: str, shown: Any) -> None:
    (hit,) = run(part([counted(value, dtype), batch_norm("bn2")]))
    assert says in hit.message
    assert (hit.layer, hit.value) == ("bn1", shown)


@pytest.mark.parametrize(("value", "dtype"), [(0, "int64"), (92385, "int64"), (7, "int32"), ((5,), "int64")])
def test_whole_numbers_are_silent(value: Any, dtype: str) -> None:
    assert run(part([counted(value, dtype)])) == []


def test_missing_or_unread_is_unknown() -> None:
    absent = tensor("bn1.num_batches_tracked", None, "float32", absence="on the meta device")
    assert run(part([batch_norm(counter=absent), batch_norm("bn2", counter=None)])) == []


@pytest.mark.parametrize("kind", [NormKind.INSTANCE, NormKind.LAYER, NormKind.FROZEN_BATCH])
def test_other_norms_are_silent(kind: NormKind) -> None:
    assert run(part([counted(1.5, "float32", kind=kind)])) == []


def test_half_leaves_the_counter_alone() -> None:
    norm = torch.nn.BatchNorm2d(3).half()
    assert norm.num_batches_tracked.dtype is torch.int64
    assert run(part([counted(norm.num_batches_tracked.item(), "int64")])) == []


def test_the_pages_arithmetic() -> None:
    counters = torch.tensor([1000.0, 1001.0, 1003.0])
    assert round(counters.mean().item(), 2) == 1001.33
    count = torch.tensor(92385)
    assert count.half().item() == float("inf")
    assert count.bfloat16().item() == 92160.0


def test_a_norm_of_unknown_kind_that_counts_is_looked_at() -> None:
    assert len(run(part([counted(1.5, "float32", kind=NormKind.UNKNOWN)]))) == 1
