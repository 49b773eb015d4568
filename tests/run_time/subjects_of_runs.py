"""What the planted defects and the controls have in common: trained networks, inputs, and how they are audited."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import bnaudit
from bnaudit.layer_names import strip_wrappers
from bnaudit.results import Audit, Finding, Outcome, Severity
from bnaudit.run_options import RunOptions
from bnaudit.settings import Settings
from sample_models.small_digits import SmallNet, build_small
from sample_models.training import FOLDER, Digits, optimizer_of, train

Build = Callable[[], nn.Module]
Inputs = tuple[torch.Tensor, ...]


@cache
def digits() -> Digits:
    """The committed digits, the same to train on and to look at."""
    with np.load(FOLDER / "digits.npz") as data:
        inputs, labels = torch.from_numpy(data["inputs"]), torch.from_numpy(data["labels"])
    return Digits(inputs, labels, inputs, labels)


@cache
def _fitted(build: Build) -> nn.Module:
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so small a net only waits for threads
    net = build()
    if any(parameter.requires_grad for parameter in net.parameters()):
        train(net, digits(), 100, optimizer_of(net, 0.05))
    torch.set_num_threads(threads)
    return net.eval()


def fitted(build: Build) -> Any:
    """The factory's network, trained on the digits, in eval mode, to change at will."""
    return copy.deepcopy(_fitted(build))


def small_weights(build: Build) -> Any:
    """The factory's network with the weights of the trained small one, where it has the same layers."""
    torch.manual_seed(0)
    net = build()
    given = fitted(build_small).state_dict()
    own = net.state_dict()
    net.load_state_dict({k: v for k, v in given.items() if k in own and own[k].shape == v.shape}, strict=False)
    return net.eval()


def middle(module: Callable[[], nn.Module]) -> Build:
    """The small network with one more module before its classifier, and the weights of the trained one."""
    return lambda: small_weights(lambda: SmallNet(middle=module()))


def images(count: int = 48) -> Inputs:
    """Real digits."""
    return (digits().inputs[:count].clone(),)


def sentences(count: int = 48, longest: int = 12) -> Inputs:
    """Token ids of several lengths, padded with 0 at their ends."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(1, 50, (count, longest), generator=generator)
    lengths = torch.randint(longest // 2, longest + 1, (count, 1), generator=generator)
    lengths[0] = longest
    return (ids * (torch.arange(longest) < lengths),)


def audited(
    given: nn.Module | Path, inputs: Inputs | None, intended: tuple[tuple[str, str], ...] = (), **run: Any
) -> Audit:
    """The one audit of a live module or a file, with all permissions."""
    taken = None if inputs is None else inputs[0] if len(inputs) == 1 else inputs
    options = RunOptions(**{"inputs": taken, "run": True, "trust_pickle": True, **run})
    report = bnaudit.audit(given, Settings(run=options, intended=intended))
    assert report.unaudited == ()
    (audit,) = report.audits
    assert not audit.failed, audit.failed
    return audit


def loud(audit: Audit) -> list[Finding]:
    """The findings at warning and above."""
    return [finding for finding in audit.findings if finding.severity >= Severity.WARNING]


def failed(audit: Audit) -> set[str]:
    """The questions that failed."""
    return {verdict.question.value for verdict in audit.verdicts if verdict.outcome is Outcome.FAILED}


def undecided(audit: Audit) -> dict[str, str]:
    """The questions that were not decided, and why."""
    return {
        verdict.question.value: verdict.reason
        for verdict in audit.verdicts
        if verdict.outcome in (Outcome.INCONCLUSIVE, Outcome.NOT_CHECKED)
    }


def stands_at(finding: Finding, layer: str) -> bool:
    """Whether the finding is about this module, or about what a graph calls an operator of it."""
    named = strip_wrappers(finding.layer or "").strip("/").replace("/", ".")
    return named == layer or named.startswith(layer + ".")
