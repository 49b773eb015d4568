"""The global random generators while the user's code makes inputs: seeded inside, as before outside."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Python's, NumPy's and (where it is loaded) torch's global generators start from `seed`, and are put back."""
    python, numpy = random.getstate(), np.random.get_state()
    torch = sys.modules.get("torch")
    state = torch.random.get_rng_state() if torch is not None else None
    random.seed(seed)
    np.random.seed(seed % 2**32)
    if torch is not None:
        torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        if torch is not None:
            torch.random.set_rng_state(state)
