"""One broken layer is found by the same rule in every container that keeps what is broken."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from carriers import CARRIERS, COUNTING, WITHOUT_CODE, write
from small_nets import PreNorm, trained
from torch import nn

import bnaudit
from bnaudit.results import Severity
from bnaudit.run_options import RunOptions
from bnaudit.settings import Settings

SLOW = ("ONNX by dynamo", "ONNX by dynamo, not optimized")
EVERYWHERE = tuple(name for name in CARRIERS if name not in SLOW)
WITH_SETTINGS = tuple(name for name in EVERYWHERE if name not in WITHOUT_CODE)
NAMELESS = {"frozen script": "forward.batch_norm_1"}
"""What a container that keeps no module names calls the broken layer."""


@cache
def healthy() -> nn.Module:
    return trained(PreNorm())


def nan_in_the_variance(norm: Any) -> None:
    norm.running_var[2] = float("nan")


def a_negative_variance(norm: Any) -> None:
    norm.running_var[2] = -1.0


def reset_statistics(norm: Any) -> None:
    norm.running_mean.zero_()
    norm.running_var.fill_(1.0)


def a_dry_run(norm: Any) -> None:
    norm.running_mean.zero_()
    norm.running_var.fill_(0.9**3)
    norm.num_batches_tracked.fill_(3)


def nan_in_the_weight(norm: Any) -> None:
    norm.weight.data[1] = float("nan")


def an_average_of_counters(norm: Any) -> None:
    norm.num_batches_tracked = torch.tensor(60.5)


def epsilon_zero(norm: Any) -> None:
    norm.eps = 0.0


def tracking_switched_off(norm: Any) -> None:
    norm.track_running_stats = False


def no_statistics(norm: Any) -> None:
    norm.track_running_stats = False
    norm.running_mean = norm.running_var = norm.num_batches_tracked = None


DEFECTS: list[tuple[Callable[[Any], None], str, Severity, tuple[str, ...]]] = [
    (nan_in_the_variance, "BN106", Severity.ERROR, EVERYWHERE),
    (a_negative_variance, "BN107", Severity.ERROR, EVERYWHERE),
    (reset_statistics, "BN103", Severity.ERROR, EVERYWHERE),
    (a_dry_run, "BN104", Severity.WARNING, EVERYWHERE),
    (nan_in_the_weight, "BN115", Severity.ERROR, EVERYWHERE),
    (an_average_of_counters, "BN111", Severity.WARNING, COUNTING),
    (epsilon_zero, "BN209", Severity.WARNING, WITH_SETTINGS),
    (tracking_switched_off, "BN205", Severity.WARNING, ("pickled module", "scripted")),
    (no_statistics, "BN204", Severity.WARNING, ("pickled module", "scripted", "traced", "exported")),
]
CASES = [(*defect[:3], carrier) for defect in DEFECTS for carrier in defect[3]]


@pytest.mark.parametrize(("spoil", "rule", "severity", "carrier"), CASES)
def test_it_is_found(spoil: Callable[[Any], None], rule: str, severity: Severity, carrier: str, tmp_path: Path) -> None:
    net: Any = copy.deepcopy(healthy())
    spoil(net.bn1)
    (audit,) = bnaudit.audit(write(carrier, net, tmp_path), Settings(run=RunOptions(static=True))).audits
    loud = [finding for finding in audit.findings if finding.severity > Severity.NOTE]
    assert [(finding.rule, finding.severity) for finding in loud] == [(rule, severity)]
    assert loud[0].layer == NAMELESS.get(carrier, "bn1")
