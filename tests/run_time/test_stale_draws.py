"""One layer whose statistics are off is named alone, whichever layer, sign, channels and samples the draw gives."""

from __future__ import annotations

import random

import pytest
import torch
from run_time.subjects_of_runs import audited, digits, fitted, loud

from sample_models.catalogue import NORMS
from sample_models.digits import build
from sample_models.write_running_controls import with_perfect_statistics

DRAWS = 50
SAMPLES = 16


def drawn(seed: int) -> tuple[torch.nn.Module, str, torch.Tensor]:
    """A net with the exact statistics of all digits, one of whose layers was spoilt; the layer; 16 other digits."""
    chooser = random.Random(seed)
    net = fitted(build)
    with_perfect_statistics(net, digits().inputs)
    layer = chooser.choice(NORMS)
    norm = net.get_submodule(layer)
    if chooser.random() < 0.5:
        signs = torch.tensor([chooser.choice((-1.0, 1.0)) for _ in range(norm.num_features)])
        norm.running_mean += signs * norm.running_var.sqrt()
    else:
        norm.running_var *= chooser.choice((0.25, 4.0))
    rows = chooser.sample(range(len(digits().inputs)), SAMPLES)
    return net, layer, digits().inputs[rows]


@pytest.mark.parametrize("seed", range(DRAWS))
def test_one_layer_off_is_named_alone(seed: int) -> None:
    net, layer, inputs = drawn(seed)
    audit = audited(net, (inputs,), batch_size=SAMPLES, seed=seed)
    named = [finding.layer for finding in loud(audit) if finding.rule in ("BN404", "BN407")]
    assert named == [layer], [(finding.rule, finding.layer, finding.message) for finding in audit.findings]


@pytest.mark.parametrize("seed", range(DRAWS))
def test_with_nothing_off_nothing_is_named(seed: int) -> None:
    net = fitted(build)
    with_perfect_statistics(net, digits().inputs)
    rows = random.Random(seed).sample(range(len(digits().inputs)), SAMPLES)
    audit = audited(net, (digits().inputs[rows],), batch_size=SAMPLES, seed=seed)
    assert [(finding.rule, finding.layer, finding.message) for finding in loud(audit)] == []
