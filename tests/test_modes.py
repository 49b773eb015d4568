"""Which layers depend on the mode: held against what PyTorch computes in the two modes."""

from __future__ import annotations

import pytest
import torch
from builders import batch_norm, part

from bnaudit.description import Carrier, HiddenModule, ModeDependent, NormKind
from bnaudit.modes import (
    drops_at_random,
    fixed_or_stored_mode,
    is_hidden,
    mode_layers,
    norm_depends_on_mode,
    norm_in_training,
    updates_in_training,
)


def differs(module: torch.nn.Module) -> bool:
    torch.manual_seed(0)
    batch = torch.randn(4, 3, 5) * 2 + 1
    return not torch.equal(module.train()(batch), module.eval()(batch))


@pytest.mark.parametrize(
    ("module", "kind", "tracks", "buffers"),
    [
        (torch.nn.BatchNorm1d(3), NormKind.BATCH, True, True),
        (torch.nn.BatchNorm1d(3, track_running_stats=False), NormKind.BATCH, False, False),
        (torch.nn.InstanceNorm1d(3), NormKind.INSTANCE, False, False),
        (torch.nn.InstanceNorm1d(3, affine=True), NormKind.INSTANCE, False, False),
        (torch.nn.InstanceNorm1d(3, track_running_stats=True), NormKind.INSTANCE, True, True),
        (torch.nn.GroupNorm(3, 3), NormKind.GROUP, None, False),
        (torch.nn.LayerNorm(5), NormKind.LAYER, None, False),
        (torch.nn.RMSNorm(5), NormKind.RMS, None, False),
    ],
    ids=lambda value: str(value) if isinstance(value, torch.nn.Module) else "",
)
def test_a_norm_depends_on_the_mode_exactly_when_its_outputs_differ(
    module: torch.nn.Module, kind: NormKind, tracks: bool | None, buffers: bool
) -> None:
    statistics = {} if buffers else {"mean": None, "var": None, "counter": None}
    layer = batch_norm(kind=kind, tracks_statistics=tracks, **statistics)
    assert norm_depends_on_mode(layer) is differs(module)


def test_tracking_switched_off_on_a_trained_norm_still_depends_on_the_mode() -> None:
    module = torch.nn.BatchNorm1d(3)
    module.track_running_stats = False
    assert differs(module)
    assert norm_depends_on_mode(batch_norm(tracks_statistics=False)) is True


def test_frozen_batch_norm_has_no_modes() -> None:
    assert norm_depends_on_mode(batch_norm(kind=NormKind.FROZEN_BATCH)) is False


def test_what_the_artifact_does_not_say_stays_unknown() -> None:
    nothing = {"mean": None, "var": None, "counter": None}
    assert norm_depends_on_mode(batch_norm(**nothing)) is None
    assert norm_depends_on_mode(batch_norm(kind=NormKind.INSTANCE)) is None
    assert norm_depends_on_mode(batch_norm(kind=NormKind.UNKNOWN, tracks_statistics=False)) is None
    assert norm_depends_on_mode(batch_norm(kind=NormKind.UNKNOWN, tracks_statistics=True)) is True


@pytest.mark.parametrize(
    ("module", "kind", "probability"),
    [
        (torch.nn.Dropout(0.5), "dropout", 0.5),
        (torch.nn.Dropout(0.0), "dropout", 0.0),
        (torch.nn.RReLU(), "rrelu", None),
    ],
    ids=str,
)
def test_other_layers_depend_on_the_mode_exactly_when_their_outputs_differ(
    module: torch.nn.Module, kind: str, probability: float | None
) -> None:
    entry = ModeDependent(name="x", kind=kind, class_name="", probability=probability)
    assert drops_at_random(entry) is differs(module)


def test_an_unknown_probability_stays_unknown() -> None:
    assert drops_at_random(ModeDependent(name="x", kind="dropout", class_name="")) is None


def test_the_graph_goes_before_the_flag_and_a_trace_does_not_obey_flags() -> None:
    layer = next(mode_layers(part([batch_norm(training=False, graph_training=True)])))
    assert fixed_or_stored_mode(part([], carrier=Carrier.SCRIPT), layer) is True
    flag_only = next(mode_layers(part([batch_norm(training=True)])))
    assert fixed_or_stored_mode(part([], carrier=Carrier.SCRIPT, traced=True), flag_only) is None
    assert fixed_or_stored_mode(part([], carrier=Carrier.SCRIPT, traced=False), flag_only) is True
    assert fixed_or_stored_mode(part([], carrier=Carrier.GRAPH), flag_only) is None


def test_hidden_covers_what_is_inside_and_nothing_that_only_starts_alike() -> None:
    hidden = HiddenModule(path="norms[1]", class_name="x", training=True, mode_dependent=(), in_training=True)
    holder = part([], hidden=(hidden,))
    assert is_hidden(holder, "norms[1]")
    assert is_hidden(holder, "norms[1].bn")
    assert is_hidden(holder, "norms[1][0]")
    assert not is_hidden(holder, "norms[10]")
    assert not is_hidden(holder, "norms")


@pytest.mark.parametrize("kind", [NormKind.BATCH, NormKind.SYNC_BATCH])
@pytest.mark.parametrize("left_out", [{"mean": None}, {"var": None}])
def test_one_statistic_makes_a_batch_norm_depend_on_the_mode(kind: NormKind, left_out: dict[str, None]) -> None:
    assert norm_depends_on_mode(batch_norm(kind=kind, tracks_statistics=False, **left_out)) is True
    assert norm_depends_on_mode(batch_norm(kind=kind, tracks_statistics=False, mean=None, var=None)) is False


@pytest.mark.parametrize("kind", [NormKind.BATCH, NormKind.SYNC_BATCH, NormKind.UNKNOWN])
def test_what_tracks_and_keeps_statistics_moves_them_in_training(kind: NormKind) -> None:
    assert updates_in_training(batch_norm(kind=kind, training=True, tracks_statistics=True))
    assert not updates_in_training(batch_norm(kind=kind, training=True, tracks_statistics=True, mean=None, var=None))


def test_a_norm_of_unknown_kind_is_not_said_to_use_the_batch() -> None:
    assert "batch" not in norm_in_training(NormKind.UNKNOWN)
    assert "batch" in norm_in_training(NormKind.BATCH)
