"""NumPy trees in, NumPy arrays out."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from bnaudit.torch_session.digests import digest
from bnaudit.torch_session.tensors import outputs, to_tensors

Pair = namedtuple("Pair", "left right")


@dataclass
class Answer:
    logits: torch.Tensor
    note: str = "x"


def test_outputs_are_flattened_in_order_and_named_as_python_writes_them() -> None:
    value = {
        "logits": torch.zeros(2),
        "more": [torch.ones(1), (torch.ones(3), "text")],
        "pair": Pair(torch.zeros(4), None),
        "answer": Answer(torch.zeros(5)),
        "ordered": OrderedDict(a=torch.zeros(6)),
        "array": np.zeros(7),
    }
    found = [(output.name, output.values.shape) for output in outputs(value)]
    assert found == [
        ("['logits']", (2,)),
        ("['more'][0]", (1,)),
        ("['more'][1][0]", (3,)),
        ("['pair'].left", (4,)),
        ("['answer'].logits", (5,)),
        ("['ordered']['a']", (6,)),
        ("['array']", (7,)),
    ]
    assert [output.name for output in outputs(torch.zeros(1))] == [""]


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.float32, torch.float64, torch.int8, torch.bool, torch.complex64]
)
def test_values_are_exact(dtype: torch.dtype) -> None:
    tensor = torch.tensor([0, 1, 1, 0]).to(dtype)
    (output,) = outputs(tensor)
    assert output.dtype == str(dtype).removeprefix("torch.")
    assert output.values.tolist() == tensor.tolist()


def test_bfloat16_is_widened() -> None:
    (output,) = outputs(torch.tensor([1.0078125], dtype=torch.bfloat16))
    assert output.dtype == "bfloat16" and output.values.dtype == np.float32 and output.values[0] == 1.0078125


def test_outputs_are_copies() -> None:
    buffer = torch.zeros(2)
    (output,) = outputs(buffer)
    buffer.add_(1)
    assert output.values.tolist() == [0, 0]


def test_inputs_are_copies_in_the_models_dtype() -> None:
    array = np.ones((2, 3), dtype=np.float32)
    array.setflags(write=False)
    ids = np.arange(3)
    tree = to_tensors(({"x": array, "ids": [ids, "text", 3]},), "cpu", torch.bfloat16)
    inner = tree[0]  # type: ignore[index]
    inner["x"].add_(1)
    inner["ids"][0].add_(1)
    assert inner["x"].dtype is torch.bfloat16 and inner["ids"][0].dtype is torch.int64
    assert inner["ids"][1:] == ["text", 3]
    assert array[0, 0] == 1 and ids[0] == 0


def test_digests_are_of_bits_and_not_of_objects() -> None:
    big = torch.randn(70_000)
    other = big.clone()
    assert digest(big) == digest(other)
    other[[3, 60_001]] = other[[60_001, 3]]
    assert digest(big) != digest(other)
    assert digest(torch.tensor([float("nan")])) == digest(torch.tensor([float("nan")]))
    assert digest(torch.tensor([0.0])) != digest(torch.tensor([-0.0]))
    assert digest({"a": [1, (2.0, None)]}) == digest({"a": [1, (2.0, None)]})
    assert digest({"a": [1]}) != digest({"a": [2]})
    assert digest(torch.zeros(3)) != digest(torch.zeros(3, dtype=torch.int32))
    for at in range(0, 70_000, 997):
        changed = big.clone()
        changed.view(torch.int32)[at] ^= 1 << 22
        assert digest(changed) != digest(big)
