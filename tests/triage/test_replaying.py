"""Which forwards a triage makes."""

from __future__ import annotations

import numpy as np
import torch
from small_nets import resnet

from bnaudit.diagnosis import Conclusion, Observed
from bnaudit.run_options import RunOptions
from bnaudit.triaging import triage


def test_the_forward_that_scores_were_found_on_is_not_repeated() -> None:
    net = resnet().eval()
    images = np.random.default_rng(0).standard_normal((6, 3, 8, 8)).astype(np.float32)
    with torch.no_grad():
        values = net(torch.from_numpy(images)).double().numpy()
    seen = Observed(values=values, kind=None, rows=np.arange(6))
    found = triage(None, seen, RunOptions(model=net, inputs=images), only=("half-precision",))
    assert found.conclusion is Conclusion.NOTHING_TO_EXPLAIN
    assert {tried.hypothesis.name for tried in found.tried} == {
        "eval-as-saved",
        "half-precision:float16",
        "half-precision:bfloat16",
    }
    assert found.forwards == 3
