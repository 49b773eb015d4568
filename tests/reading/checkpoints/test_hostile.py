"""Pickles made to cost the walk through a checkpoint time or memory."""

from __future__ import annotations

import pickle
import tracemalloc
from pathlib import Path
from time import perf_counter

import numpy as np
import pytest
from state_dicts import describe

from bnaudit.description import Description
from bnaudit.errors import BnauditError

_EMPTY_LIST, _MEMOIZE, _APPEND, _STOP = b"]", b"\x94", b"a", b"."


def read(folder: Path, data: bytes) -> Description | BnauditError:
    path = folder / "hostile.pkl"
    path.write_bytes(data)
    try:
        return describe(path)
    except BnauditError as error:
        return error


def frugal(folder: Path, data: bytes) -> Description | BnauditError:
    """Read within 10 s and 200 MB."""
    tracemalloc.start()
    start = perf_counter()
    result = read(folder, data)
    seconds, (_, peak) = perf_counter() - start, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds < 10 and peak < 200 << 20
    return result


def array() -> bytes:
    """The opcodes of one small array."""
    return pickle.dumps(np.ones(2), 2)[2:-1]


def test_lists_inside_one_another_by_the_ten_thousands(tmp_path: Path) -> None:
    depth = 50_000
    nested = b"\x80\x02" + _EMPTY_LIST * depth + _APPEND * (depth - 1) + _STOP
    assert isinstance(frugal(tmp_path, nested), (Description, BnauditError))
    around = b"\x80\x02" + _EMPTY_LIST * 300 + array() + _APPEND * 300 + _STOP
    result = frugal(tmp_path, around)
    assert isinstance(result, Description) and "100 deep" in result.gaps[0].why


def test_lists_of_the_same_list_twice(tmp_path: Path) -> None:
    shared: list[object] = [np.ones(2)]
    for _ in range(90):
        shared = [shared, shared]
    result = frugal(tmp_path, pickle.dumps(shared, 4))
    assert isinstance(result, Description) and result.parts[0].tensors == 1


def test_thousands_of_names_of_one_dict(tmp_path: Path) -> None:
    state = {"bn.running_mean": np.ones(2), "bn.running_var": np.ones(2)}
    result = frugal(tmp_path, pickle.dumps({f"name{i}": state for i in range(20_000)}, 4))
    assert isinstance(result, Description) and len(result.parts) == 1 and len(result.remarks) < 10


@pytest.mark.parametrize("depth", [50, 99])
def test_long_names_in_deep_places(tmp_path: Path, depth: int) -> None:
    value: dict[str, object] = {f"w{i}": np.ones(2) for i in range(5)}
    for level in range(depth):
        value = {"n" * 4000 + str(level): value, **{f"k{i}.w": np.ones(1) for i in range(20)}}
    result = frugal(tmp_path, pickle.dumps(value, 4))
    assert isinstance(result, Description)
    assert all(len(part.name) <= 201 * depth for part in result.parts)


def test_a_name_of_megabytes(tmp_path: Path) -> None:
    result = frugal(tmp_path, pickle.dumps({"bn." * 1_000_000 + "running_mean": np.ones(2)}, 4))
    assert isinstance(result, (Description, BnauditError))


def test_unreadable_tensors_by_the_thousands_are_a_few_gaps(tmp_path: Path) -> None:
    broken = pickle.dumps({f"bn{i}.running_mean": np.ones(2) for i in range(300)}, 4).replace(b"f8", b"V8")
    result = frugal(tmp_path, broken)
    assert isinstance(result, Description) and 0 < len(result.gaps) < 30


@pytest.mark.parametrize("key", [(1, 2), None, 1.5, b"bytes", frozenset({1}), True])
def test_keys_that_are_no_text(tmp_path: Path, key: object) -> None:
    assert isinstance(read(tmp_path, pickle.dumps({key: {"bn.running_mean": np.ones(2)}}, 4)), Description)
    assert isinstance(read(tmp_path, pickle.dumps({key: np.ones(2)}, 4)), Description)


@pytest.mark.parametrize("steps", [float("nan"), float("inf"), -3, 1.5, True, "7", None, 10**30, [3]])
def test_step_counts_that_are_none(tmp_path: Path, steps: object) -> None:
    result = read(tmp_path, pickle.dumps({"global_step": steps, "m": {"bn.running_mean": np.ones(2)}}, 4))
    assert isinstance(result, Description) and result.steps is None


def test_settings_called_optimizer_by_the_thousands(tmp_path: Path) -> None:
    settings = {f"option{i}": [i] for i in range(8_000)}
    result = frugal(tmp_path, pickle.dumps([{"optimizer": settings, "w": np.ones(1)} for _ in range(10_000)], 4))
    assert isinstance(result, Description) and result.has_optimizer is False
