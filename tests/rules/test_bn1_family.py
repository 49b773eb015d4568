"""All rules of the saved state together: quiet on healthy layers of any depth, unbreakable on hostile ones."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch
from builders import batch_norm, description, part, tensor
from hypothesis import given, settings
from hypothesis import strategies as st

from bnaudit.description import CUMULATIVE, Carrier, Description, Evidence, Gap, NormKind, NormLayer
from bnaudit.plugins import names
from bnaudit.results import Confidence, Hit, Question, Severity
from bnaudit.rules import Case, Rule, load_rule

RULES = [load_rule(name) for name in names("bnaudit.rules") if re.match(r"bn1\d\d_", name)]
HEADINGS = ("## What it finds", "## Why it matters", "## How to fix", "## Limits")
CAPS = {Confidence.LOW: Severity.NOTE, Confidence.MEDIUM: Severity.WARNING, Confidence.HIGH: Severity.ERROR}


def found(subject: Description) -> list[tuple[Rule, Hit, Severity]]:
    """Every hit of the family with the severity that a report would show; runtime warnings fail the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return [
            (rule, hit, min(hit.severity or rule.severity, CAPS[hit.confidence]))
            for rule in RULES
            for hit in rule.check(Case(subject, MappingProxyType(dict(rule.limits))))
        ]


def loud(subject: Description) -> list[str]:
    return [f"{rule.id}: {hit.message}" for rule, hit, severity in found(subject) if severity > Severity.NOTE]


def published_like(seed: int, name: str, counter: int | None, **fields: Any) -> NormLayer:
    """Statistics as published checkpoints have them: wide spread, dead and pruned channels, float32."""
    rng = np.random.default_rng(seed)
    channels = int(rng.choice([4, 16, 64, 256]))
    var = np.exp(rng.normal(rng.uniform(-4, 3), rng.uniform(0.2, 1.2), channels))
    dead = rng.random(channels) < rng.choice([0.0, 0.05, 0.3])
    var[dead] = rng.choice([0.0, 1e-40, 1e-14, 1e-9], dead.sum())
    gamma, beta = rng.normal(1, 0.4, channels), rng.normal(0, 0.4, channels)
    gamma[dead] *= rng.choice([0.0, 1.0])
    mean = rng.normal(0, 1.5, channels) * np.sqrt(var)
    values = {"mean": mean, "var": var, "gamma": gamma, "beta": beta}
    rounded = {key: value.astype(np.float32).astype(np.float64) for key, value in values.items()}
    return batch_norm(name, **rounded, counter=counter, **fields)


@settings(max_examples=100)
@given(
    seed=st.integers(0, 10_000),
    depth=st.integers(1, 12),
    counter=st.sampled_from([None, 0, 60, 500, 92385, 10**7]),
    carrier=st.sampled_from([Carrier.STATE_DICT, Carrier.MODULE, Carrier.SCRIPT, Carrier.GRAPH]),
    momentum=st.sampled_from([0.1, CUMULATIVE, 0.0]),
)
def test_healthy_layers_raise_no_warning(
    seed: int, depth: int, counter: int | None, carrier: Carrier, momentum: Any
) -> None:
    fields: dict[str, Any] = {}
    if carrier is not Carrier.STATE_DICT:
        evidence = Evidence.OPERATOR if carrier is Carrier.GRAPH else Evidence.CLASS
        fields = {"eps": 1e-5, "momentum": momentum, "tracks_statistics": True, "evidence": evidence}
        counter = None if carrier is Carrier.GRAPH else counter or 0
    layers = [published_like(seed + i, f"layer{i // 2}.bn{i % 2}", counter, **fields) for i in range(depth)]
    assert loud(description(part(layers, carrier=carrier))) == []


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Threads cost more than such small batches do."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
@settings(max_examples=5)
@given(seed=st.integers(0, 1000), epochs=st.integers(60, 120), momentum=st.sampled_from([0.1, 0.3]))
def test_layers_that_pytorch_trained_raise_no_warning(seed: int, epochs: int, momentum: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    net = torch.nn.Sequential(*[torch.nn.BatchNorm1d(6, momentum=momentum) for _ in range(3)])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for _ in range(epochs):
        optimizer.zero_grad()
        (net(torch.randn(8, 6, generator=generator) * 3 + 1) - 0.5).abs().sum().backward()
        optimizer.step()
    layers = [
        batch_norm(
            str(i),
            mean=norm.running_mean,
            var=norm.running_var,
            gamma=norm.weight.detach(),
            beta=norm.bias.detach(),
            counter=norm.num_batches_tracked.item(),
            metadata_version=2,
        )
        for i, norm in enumerate(net)
    ]
    assert found(description(part(layers))) == []


def _bare(name: str, **fields: Any) -> NormLayer:
    return batch_norm(name, mean=None, var=None, counter=None, **fields)


CONTROLS: dict[str, Description] = {
    "ported from Keras": description(
        part([published_like(i, f"bn{i}", 0, eps=1e-3, momentum=0.0) for i in range(4)], carrier=Carrier.MODULE)
    ),
    "counters missing and nothing else": description(part([published_like(i, f"bn{i}", None) for i in range(4)])),
    "frozen norms": description(
        part([published_like(i, f"bn{i}", None, kind=NormKind.FROZEN_BATCH, metadata_version=3) for i in range(4)])
    ),
    "affine-only norms": description(
        part([_bare(f"norm{i}", kind=NormKind.UNKNOWN, evidence=Evidence.AFFINE) for i in range(4)])
    ),
    "instance norms with and without affine and tracking": description(
        part(
            [
                _bare("plain", kind=NormKind.INSTANCE, gamma=None, beta=None, tracks_statistics=False),
                _bare("affine", kind=NormKind.INSTANCE, tracks_statistics=False),
                published_like(0, "tracking", 0, kind=NormKind.INSTANCE, tracks_statistics=True),
            ],
            carrier=Carrier.MODULE,
        )
    ),
    "layer, group and RMS norms": description(
        part(
            [_bare(kind.value, kind=kind, evidence=Evidence.CLASS) for kind in (NormKind.LAYER, NormKind.GROUP)]
            + [_bare("rms", kind=NormKind.RMS, beta=None, gamma=(0, 0, 0), evidence=Evidence.CLASS)],
            carrier=Carrier.MODULE,
        )
    ),
    "absorbed statistics": description(
        part([batch_norm(f"bn{i}", mean=(0, 0, 0), var=(1 - 1e-5,) * 3, counter=None) for i in range(4)])
    ),
    "a head shared across levels": description(
        part([published_like(i, f"bn{i}", 1000 if i else 5000) for i in range(4)])
    ),
    "an average with copied buffers": description(
        part([published_like(1, "bn", 900)], "model"),
        part([published_like(1, "bn", 900, hooked=None)], "ema"),
    ),
    "a fresh model": description(
        part([batch_norm(f"bn{i}", mean=(0, 0), var=(1, 1), gamma=(i, i), beta=(0, 0), counter=0) for i in range(2)])
    ),
    "no norm layers": description(part([])),
}


@pytest.mark.parametrize("name", CONTROLS)
def test_controls_come_out_without_warnings(name: str) -> None:
    assert loud(CONTROLS[name]) == []


def test_an_unused_head_is_the_one_control_that_is_explained_by_a_warning() -> None:
    head = batch_norm("aux.bn", mean=(0, 0), var=(1, 1), gamma=(1, 1), beta=(0, 0), counter=0)
    (message,) = loud(description(part([published_like(0, "bn", 5000), head])))
    assert "never ran in training" in message


_NUMBERS = st.floats(width=32) | st.sampled_from([0.0, 1.0, 0.9, -1.0, 1e-5, 65505.0])
_VALUES = st.none() | st.lists(_NUMBERS, max_size=4)
_STORED = st.tuples(_VALUES, st.sampled_from(["float32", "float16", "bfloat16", "float64"]), st.booleans())


@st.composite
def hostile_layers(draw: st.DrawFn) -> NormLayer:
    """Any combination of values, lengths, kinds and settings that a broken or malicious file can produce."""
    stored = {}
    for role, leaf in (("mean", "running_mean"), ("var", "running_var"), ("gamma", "weight"), ("beta", "bias")):
        values, dtype, absent = draw(_STORED)
        missing = "not there" if absent else ""
        stored[role] = None if values is None else tensor(f"x.{leaf}", values, dtype, absence=missing)
    counter = draw(st.none() | _NUMBERS | st.integers(-5, 2**62))
    dtype = "float32" if isinstance(counter, float) else "int64"
    return batch_norm(
        draw(st.sampled_from(["", "bn1", "ema.bn1", "layer1.0.bn1", "layer2.0.bn1", "module.bn1"])),
        **stored,
        counter=None if counter is None else tensor("x.num_batches_tracked", counter, dtype),
        kind=draw(st.sampled_from(list(NormKind))),
        evidence=draw(st.sampled_from(list(Evidence))),
        metadata_version=draw(st.sampled_from([None, 0, 1, 2, 3])),
        declared_channels=draw(st.sampled_from([None, 0, 3])),
        eps=draw(st.sampled_from([None, 0.0, 1e-12, 1e-5, 1e-3, -1.0, float("nan"), float("inf")])),
        momentum=draw(st.sampled_from([None, CUMULATIVE, 0.0, 0.1, 1.0, -3.0, float("nan"), float("inf")])),
        tracks_statistics=draw(st.sampled_from([None, True, False])),
    )


@settings(max_examples=200)
@given(
    parts=st.lists(
        st.tuples(st.lists(hostile_layers(), max_size=4), st.sampled_from(["", "ema"]), st.sampled_from(list(Carrier))),
        max_size=3,
    ),
    steps=st.sampled_from([None, -1, 0, 10, 10**30]),
)
def test_hostile_descriptions_break_nothing(parts: list[Any], steps: int | None) -> None:
    subject = description(
        *(part(layers, name, carrier) for layers, name, carrier in parts),
        steps=steps,
        gaps=(Gap(where="x", why="y"),),
    )
    for rule, hit, _ in found(subject):
        assert hit.message and hit.advice, rule.id


def test_the_family_is_complete() -> None:
    assert [rule.id for rule in RULES] == [f"BN{number}" for number in range(101, 119)]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_each_page_has_its_headings_and_a_readable_length(rule: Rule) -> None:
    found_headings = re.findall(r"^## .*$", rule.doc, re.MULTILINE)
    worked = found_headings[2]
    assert found_headings == [*HEADINGS[:2], worked, *HEADINGS[2:]]
    assert worked in ("## Worked arithmetic", "## Example")
    assert 20 <= len(rule.doc.strip().splitlines()) <= 60
    assert rule.summary.endswith(".") and len(rule.summary) <= 110


def test_which_rules_decide_whether_buffers_are_complete() -> None:
    deciding = {rule.id for rule in RULES if rule.question is Question.BUFFERS}
    assert deciding == {f"BN{number}" for number in range(101, 119)} - {
        "BN108",
        "BN109",
        "BN112",
        "BN113",
        "BN115",
        "BN116",
    }


def test_one_defect_is_one_finding() -> None:
    yields = {rule.id: rule.yields_to for rule in RULES if rule.yields_to}
    assert yields == {
        "BN103": ("BN117",),
        "BN105": ("BN103", "BN104"),
        "BN107": ("BN106",),
        "BN109": ("BN106", "BN107"),
    }
