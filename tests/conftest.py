"""Settings shared by all tests: property tests draw the same examples in every run."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the nets are so small that more threads only wait for each other

settings.register_profile(
    "bnaudit",
    derandomize=True,
    deadline=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("bnaudit")
