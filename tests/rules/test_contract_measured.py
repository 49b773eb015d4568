"""What every rule owes that reads what a run showed: silence without a run, and an answer to any numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from builders import batch_norm, description, part
from finding_words import MOST_SEVERE, check_words
from hypothesis import given, settings
from hypothesis import strategies as st
from measured import measured

from bnaudit.auditing import conclude
from bnaudit.description import Carrier, Description, HiddenModule, NormKind
from bnaudit.measurement import (
    AsSaved,
    BatchSize,
    EvalDropout,
    EvalNorm,
    Gap,
    IdenticalRows,
    LayerStatistics,
    Loaded,
    Measured,
    Measurement,
    Mixing,
    NormSize,
    Padding,
    PoisonedBatch,
    Production,
    Repeat,
    ReusedNorm,
    Shift,
    StateInEval,
    Swap,
    Trained,
)
from bnaudit.measuring import Run
from bnaudit.rules import Case, Rule, rules
from bnaudit.session import Place, RandomCall, StateChange
from bnaudit.settings import Settings

RULES = tuple(rules())

pytestmark = pytest.mark.filterwarnings("error")

NEEDS = sorted({need for rule in RULES for need in rule.needs if need != "baseline"})
names = st.sampled_from(("", "bn1", "drop", "n[0].bn", "a.b.c"))
layers = st.none() | names
words = st.sampled_from(("", "Net", "BatchNorm2d", "aten._softmax.default", "LSTM", "net.py:41"))
sizes = st.floats(0) | st.sampled_from((0.0, 0.6, 1.0, 5.0, math.inf, math.nan))
counts = st.integers(0, 100)
flags = st.booleans()
unsure = st.none() | flags


def record(made: Callable[..., Any], /, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(fields).map(lambda drawn: made(**drawn))


places = record(Place, module=names, class_name=words, operator=words, source=words, hidden=flags)
shifts = record(Shift, exact=flags, difference=sizes, scale=sizes, epsilons=sizes, flips=counts, decisions=counts)
maybe = st.none() | shifts
random_calls = record(RandomCall, place=places, is_dropout=flags, probability=st.none() | st.floats(0, 1))
changes = record(
    StateChange,
    name=st.sampled_from(("u", "bn1.running_mean", "bn1.num_batches_tracked", "a.b.c.x")),
    kind=st.sampled_from(("buffer", "parameter", "attribute")),
    persistent=flags,
    owner=words,
    digest=counts,
)
mixings = record(Mixing, place=places, layer=layers, is_norm=flags, by_configuration=flags)
norms = st.builds(batch_norm, names, kind=st.sampled_from(NormKind), training=unsure, tracks_statistics=unsure)
parts = st.lists(norms, max_size=3).map(lambda found: part(found, carrier=Carrier.MODULE, trainable=3))
moments = {"samples": counts, "channels": counts, "synthetic": flags}
loaded = st.lists(st.sampled_from(("bn1", "bn1.num_batches_tracked")), max_size=2).map(tuple)

measurements: st.SearchStrategy[Measurement] = st.one_of(
    record(
        Swap,
        other=shifts,
        scaled=maybe,
        double=maybe,
        alone=maybe,
        mixing=st.lists(mixings, max_size=3).map(tuple),
        located=flags,
        smallest_set=st.none() | counts,
        seeded=flags,
        leaks=unsure,
    ),
    record(PoisonedBatch, place=st.none() | places),
    record(
        BatchSize,
        one=maybe,
        raised=st.sampled_from(("", "ValueError: Expected more than 1 value per channel.\nMore.", "E")),
        lost_axis=words,
        two=maybe,
        three=maybe,
        raises_at_two=unsure,
    ),
    record(Padding, shift=shifts, axis=counts, lengths=st.tuples(counts, counts)),
    record(IdenticalRows, shift=shifts, double=maybe),
    record(
        Repeat,
        in_a_row=shifts,
        restored=maybe,
        random=st.lists(random_calls, max_size=2).map(tuple),
        changes=st.lists(changes, max_size=3).map(tuple),
    ),
    record(EvalNorm, place=places, layer=layers, mixes=unsure, by_configuration=flags, updates=flags),
    record(EvalDropout, call=random_calls, calls=counts),
    record(StateInEval, change=changes, depends_on_data=unsure, layer=layers, is_observer=flags),
    record(
        LayerStatistics,
        layer=names,
        position=counts,
        live=counts,
        mean_shift=sizes,
        mean_error=sizes,
        variance_ratio=sizes,
        log_variance=sizes,
        log_variance_error=st.none() | sizes,
        worst=st.lists(counts, max_size=16).map(tuple),
        worst_shift=sizes,
        **moments,
    ),
    record(
        ReusedNorm,
        layer=names,
        calls=counts,
        mean_difference=sizes,
        mean_error=sizes,
        variance_ratio=sizes,
        variance_error=st.none() | sizes,
        samples=counts,
        synthetic=flags,
    ),
    record(
        NormSize,
        place=places,
        layer=layers,
        values_per_sample=counts,
        values_per_statistic=counts,
        uses_batch=flags,
        is_batch_norm=flags,
        trains=flags,
        training_batch_size=st.none() | st.integers(1, 64),
    ),
    record(
        Gap,
        systematic=sizes,
        noise=sizes,
        plain=sizes,
        bessel=st.none() | sizes,
        samples=counts,
        anchors=counts,
        flips=counts,
        companion_flips=counts,
        decisions=counts,
        synthetic=flags,
    ),
    record(Trained, part=parts),
    record(AsSaved, shift=shifts, random=flags),
    record(Production, shift=shifts, form=st.just("torch.compile")),
    record(Loaded, model=words, matched=loaded, missing=loaded, unexpected=loaded, filled_counters=loaded),
)
runs = st.lists(measurements, max_size=8).map(lambda found: measured(*found, probes=tuple(NEEDS)))
hidden = st.lists(st.sampled_from(("n[0]", "drop")), max_size=2, unique=True).map(
    lambda paths: tuple(
        HiddenModule(path=path, class_name="B", training=True, mode_dependent=(), in_training=True) for path in paths
    )
)
subjects = st.builds(
    lambda found, carrier, kept: description(part(found, carrier=carrier, hidden=kept, trainable=2)),
    st.lists(norms, max_size=3),
    st.sampled_from(Carrier),
    hidden,
)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.needs], ids=lambda rule: rule.id)
def test_without_a_run_it_is_silent(rule: Rule) -> None:
    assert list(rule.check(Case(description(part([batch_norm()])), rule.limits))) == []


@given(subject=subjects, shown=runs)
@settings(max_examples=300, deadline=None)
def test_no_rule_fails_on_what_a_run_may_show(subject: Description, shown: Measured) -> None:
    audit = conclude(subject, Settings(), RULES, ran=Run(subject, shown))
    assert audit.failed == ()
    for finding in audit.findings:
        assert finding.severity <= MOST_SEVERE[finding.confidence]
        assert len(finding.channels) <= 16
        check_words(finding.rule, finding.message, finding.advice)
