"""Stored statistics against what the norms receive, and the gap between training and eval mode (BN403 to BN407)."""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.experiment import Experiment
from bnaudit.initial_state import is_absorbed
from bnaudit.measurement import Answer, Gap, Measurement, NormSize
from bnaudit.mode_gap import FEWEST_SAMPLES, is_gap, mode_gap, normalizes_with_batch
from bnaudit.probes import Probe
from bnaudit.received import layer_statistics, never_trained, reused_norms
from bnaudit.results import Outcome, Question

_FOLDED = "no batch norm is left: folded, if any was"
_NEVER_THE_BATCH = "no norm uses the batch in train() either"


def measure(experiment: Experiment) -> Iterator[Measurement]:
    """A NormSize per norm call, LayerStatistics and ReusedNorms per layer, the Gap and the answer."""
    yield from _sizes(experiment)
    yield from experiment.once(layer_statistics)
    yield from reused_norms(experiment)
    gap = experiment.once(mode_gap)
    if gap is not None:
        yield gap
    outcome, reason, needs = _answer(experiment, gap)
    yield Answer(question=Question.GAP, outcome=outcome, reason=reason, needs=needs)


def _sizes(experiment: Experiment) -> Iterator[NormSize]:
    training = {layer.name for layer in experiment.session.part.layers if layer.training}
    for call in experiment.base.norm_calls:
        yield NormSize(
            place=call.place,
            layer=call.layer,
            values_per_sample=call.values_per_sample,
            values_per_statistic=call.values_per_statistic,
            uses_batch=call.uses_batch,
            is_batch_norm=call.kind.is_batch,
            trains=call.layer in training,
            training_batch_size=experiment.options.training_batch_size,
        )


def _answer(experiment: Experiment, gap: Gap | None) -> tuple[Outcome, str, str]:
    training = experiment.training
    if training is None:
        if not experiment.has_norms_of_two_modes and experiment.session.part.folded:
            return Outcome.NOT_CHECKED, _FOLDED, "the model that it was made from"
        if not experiment.has_norms_of_two_modes:
            return Outcome.PASSED, experiment.training_why, ""
        if not experiment.has_batch_norms:
            return Outcome.PASSED, _NEVER_THE_BATCH, ""
        return Outcome.NOT_CHECKED, experiment.training_why, "a model that can be put into training mode"
    if not normalizes_with_batch(training):
        return Outcome.PASSED, _NEVER_THE_BATCH, ""
    if never_trained(experiment):
        return Outcome.INCONCLUSIVE, "the statistics are as they were built", "a trained model"
    if is_absorbed([layer for layer in experiment.session.part.layers if layer.kind.is_batch]):
        return Outcome.INCONCLUSIVE, "statistics absorbed, or never stored", "what it was made from: bnaudit compare"
    if experiment.feed.synthetic:
        return Outcome.NOT_CHECKED, "synthetic input: sizes are not evidence", "real inputs: --inputs"
    if normalizes_with_batch(experiment.base):
        return Outcome.INCONCLUSIVE, "eval mode normalizes with the batch, too", ""
    if (samples := experiment.feed.samples) < FEWEST_SAMPLES:
        return Outcome.INCONCLUSIVE, f"{_count(samples)}, {FEWEST_SAMPLES} are needed", "more samples: --inputs"
    if gap is None and experiment.once(layer_statistics):
        return Outcome.PASSED, f"no layer's statistics are off; no outputs to compare; {_count(samples)}", ""
    if gap is None:
        return Outcome.INCONCLUSIVE, "no floating output differs between anchors", "inputs that differ"
    figures = f"noise {gap.noise:.2g}; {gap.samples} samples"
    if is_gap(experiment, gap):
        return Outcome.FAILED, f"gap {gap.systematic:.2g} of the output's spread, {figures}", ""
    if gap.systematic > gap.noise:
        return Outcome.PASSED, f"no layer's statistics are off; gap {gap.systematic:.2g}, {figures}", ""
    return Outcome.PASSED, f"gap {gap.systematic:.2g} of the output's spread, {figures}", ""


def _count(samples: int) -> str:
    return "1 sample" if samples == 1 else f"{samples} samples"


PROBE = Probe(name="train_eval_gap", measure=measure)
