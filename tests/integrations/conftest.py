"""Tiny nets train many times faster on one thread, the more so beside other tests."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True, scope="module")
def _little_garbage_to_look_through() -> Iterator[None]:
    """Accelerate collects garbage after each training, which takes longer than the training with all that is loaded."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
