"""Every family on a real network: its own cause is consistent, other faults rarely are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from diagnoses import evidence
from numpy.typing import NDArray
from request_logs import images, served, train_norms
from torch import nn

from bnaudit.diagnosis import FamilyMatch, LogEvidence
from bnaudit.errors import BnauditError
from bnaudit.triage_families import LayerMoments, families
from bnaudit.variation import Variation

COUNT = 64
NORMS = ("bn1", "layer1.0.bn1", "layer1.0.bn2", "layer2.0.bn1", "layer2.0.bn2", "layer2.0.downsample.1")
Scores = NDArray[np.float64]


def scores(net: nn.Module, inputs: torch.Tensor) -> Scores:
    with torch.no_grad():
        return net(inputs).numpy().astype(np.float64)


DRAWN: dict[str, Scores] = {}
"""What was drawn already: every family draws the same whatever was observed."""


def _bytes(values: Scores | None) -> bytes:
    return b"" if values is None else values.tobytes()


class Replays:
    """What the families ask, answered by plain PyTorch."""

    def __init__(self, observed: Scores, form: Callable[[Scores], Scores] = lambda values: values) -> None:
        self._form = form
        self.observed = observed
        self.as_saved = form(scores(served(), images()[:COUNT]))
        self.rows = np.arange(COUNT)
        self.inputs = COUNT
        self.norms: tuple[str, ...] = NORMS
        self.drops = True
        self.is_labels = False
        self.is_probabilities = False
        self.floor = 1e-6
        self.made = 0

    def scores(
        self, variation: Variation, groups: Sequence[Sequence[int]] | None = None, seed: int | None = None
    ) -> Scores:
        self.made += 1
        changes = [(name, each.training, each.mean, each.var) for name, each in variation.layers.items()]
        key = repr((variation.drops, [(a, b, *map(_bytes, both)) for a, b, *both in changes], groups, seed))
        if key not in DRAWN:
            DRAWN[key] = self._drawn(variation, groups, seed)
        return self._form(DRAWN[key])

    def _drawn(self, variation: Variation, groups: Sequence[Sequence[int]] | None, seed: int | None) -> Scores:
        net = served()
        if variation.drops:
            torch.manual_seed(seed or 0)
            net.dropout.train()
        if any(altered.training for altered in variation.layers.values()):
            train_norms(net)
        for name, altered in variation.layers.items():
            if altered.mean is not None and altered.var is not None:
                net.get_submodule(name).running_mean.copy_(torch.tensor(altered.mean))
                net.get_submodule(name).running_var.copy_(torch.tensor(altered.var))
        if groups is None:
            return scores(net, images()[:COUNT])
        batches = {tuple(sorted(group)) for group in groups}
        answers = {batch: scores(net, images()[list(batch)]) for batch in sorted(batches)}
        return np.stack([answers[tuple(sorted(g))][sorted(g).index(g[0])] for g in groups])

    def batch_moments(self, rows: Sequence[int]) -> Mapping[str, LayerMoments]:
        return moments_of(tuple(rows))


@cache
def moments_of(rows: tuple[int, ...]) -> dict[str, LayerMoments]:
    """The same batches are drawn whatever was observed."""
    net, found = served(), {}
    layers = {name: net.get_submodule(name) for name in NORMS}
    stored = {
        name: (layer.running_mean.double().numpy(), layer.running_var.double().numpy())
        for name, layer in layers.items()
    }
    for layer in layers.values():
        layer.momentum = 1.0
    train_norms(net)
    scores(net, images()[list(rows)])
    for name, layer in layers.items():
        found[name] = LayerMoments(
            layer.running_mean.double().numpy(), layer.running_var.double().numpy(), *stored[name], 0.1
        )
    return found


def consistent(replays: Replays, log: LogEvidence | None = None) -> list[str]:
    return [match.name for match in families(replays, log)[0] if match.consistent]


def beside_others(size: int, seed: int) -> Scores:
    net, order = served(), np.random.default_rng(seed).permutation(COUNT)
    train_norms(net)
    found = np.empty((COUNT, 10))
    for start in range(0, COUNT, size):
        rows = order[start : start + size]
        found[rows] = scores(net, images()[rows if len(rows) > 1 else np.append(rows, order[0])])[: len(rows)]
    return found


def dropped(seed: int) -> Scores:
    torch.manual_seed(seed)
    net = served()
    net.dropout.train()
    return scores(net, images()[:COUNT])


def after(updates: int, size: int, seed: int) -> Scores:
    net, generator = served(), np.random.default_rng(seed)
    train_norms(net)
    for _ in range(updates):
        scores(net, images()[generator.choice(len(images()), size)])
    return scores(net.eval(), images()[:COUNT])


@pytest.mark.parametrize("size", [4, 10, 16])
def test_companions_that_were_not_logged(size: int) -> None:
    assert consistent(Replays(beside_others(size, 90 + size)))[:1] == ["unlogged-companions"]


@pytest.mark.parametrize("seed", [96, 97])
def test_dropout(seed: int) -> None:
    assert consistent(Replays(dropped(seed))) == ["dropout"]


@pytest.mark.parametrize(("updates", "size"), [(1, 16), (3, 8)])
def test_a_few_stray_batches(updates: int, size: int) -> None:
    assert "stray-batches" in consistent(Replays(after(updates, size, 95)))


def test_many_more_updates() -> None:
    found = consistent(Replays(after(30, 32, 93)))
    assert found[0] == "more-updates"
    assert "dropout" not in found


def foreign() -> dict[str, Scores]:
    """Faults that no family is: of the inputs, of other weights."""
    net, given = served(), images()[:COUNT]
    torch.manual_seed(3)
    faults = {
        "contrast": given * 0.8,
        "brightness": given + 0.1,
        "blur": F.avg_pool2d(given, 3, 1, 1),
        "shift": torch.roll(given, 1, -1),
        "flip": given.flip(-1),
        "noise": given + 0.3 * torch.randn(given.shape),
        "clipped": given.clamp(0.2, 0.8),
        "quantized": (given * 4).round() / 4,
        "cropped": F.pad(given[..., 1:-1, 1:-1], (1, 1, 1, 1)),
    }
    found = {name: scores(net, inputs) for name, inputs in faults.items()}
    for name in ("fc.weight", "layer2.0.conv1.weight"):
        other = served()
        with torch.no_grad():
            weight = other.get_parameter(name)
            weight.mul_(1 + 0.1 * torch.randn(weight.shape))
        found[name] = scores(other, given)
    return found


def test_of_eleven_faults_that_no_family_is_hardly_one_is_consistent() -> None:
    judged = {name: consistent(Replays(observed)) for name, observed in foreign().items()}
    assert sum(map(bool, judged.values())) <= 1, judged


def softmax(values: Scores) -> Scores:
    return np.round(torch.softmax(torch.tensor(values), -1).numpy(), 3)


def test_rounded_probabilities_of_dropout() -> None:
    replays = Replays(softmax(dropped(96)), softmax)
    replays.is_probabilities, replays.floor = True, 0.001 / 12**0.5
    assert consistent(replays) == ["dropout"]


def test_labels_alone_prove_nothing_and_draw_nothing() -> None:
    replays = Replays(dropped(96).argmax(1).reshape(-1, 1).astype(float))
    replays.is_labels = True
    before = replays.made
    assert consistent(replays) == []
    assert replays.made == before
    assert consistent(replays, evidence("randomness")) == ["dropout"]


def test_the_log_rules_families_out() -> None:
    assert "dropout" not in consistent(Replays(dropped(96)), evidence("companions"))
    quiet = LogEvidence(observations=40, inputs=10, repeated=8, differing=0, spread=0.0, limit=1e-3)
    assert consistent(Replays(dropped(96)), quiet) == []
    matches = families(Replays(dropped(96)), evidence("history"))[0]
    assert all("the log rules it out" in m.signature for m in matches if m.name in ("dropout", "unlogged-companions"))


def test_a_model_without_norms_or_dropout_has_no_family() -> None:
    replays = Replays(dropped(96))
    replays.norms, replays.drops = (), False
    assert families(replays) == ((), ())


def test_a_family_that_cannot_be_drawn_says_why() -> None:
    class Broken(Replays):
        def scores(self, *given: object, **more: object) -> Scores:
            raise BnauditError("the budget was spent")

    judged, left = families(Broken(dropped(96)))
    assert judged == ()
    assert ("dropout", "the budget was spent") in left


def test_every_family_says_what_to_log() -> None:
    matches: tuple[FamilyMatch, ...] = families(Replays(dropped(96)))[0]
    assert {match.name for match in matches} == {"unlogged-companions", "stray-batches", "dropout", "more-updates"}
    assert all(match.needs and match.claim and match.signature for match in matches)


def test_the_same_scores_for_all_inputs_are_a_draw_of_nothing() -> None:
    constant = np.tile(scores(served(), images()[:COUNT]).mean(axis=0), (COUNT, 1))
    judged, _ = families(Replays(constant))
    assert judged and not any(match.consistent for match in judged)
