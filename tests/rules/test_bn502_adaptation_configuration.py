"""BN502: set up for test-time adaptation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from builders import batch_norm, hits, part

from bnaudit.description import Carrier, NormKind, NormLayer
from bnaudit.results import Hit

RULE = "bn502_adaptation_configuration"


def adapted(name: str = "bn", **fields: Any) -> NormLayer:
    settings: dict[str, Any] = {"mean": None, "var": None, "tracks_statistics": False, "requires_grad": True}
    return batch_norm(name, **{**settings, **fields})


def module_hits(*layers: NormLayer, **fields: Any) -> list[Hit]:
    return hits(RULE, part(layers, carrier=Carrier.MODULE, **{"trainable": 0, "frozen": 20, **fields}))


@pytest.mark.parametrize("counter", [1000, None])
def test_only_norm_weights_train_and_no_buffers_is_found(counter: int | None) -> None:
    (hit,) = module_hits(adapted(counter=counter))
    assert hit.layer == "bn"
    assert hit.settles is True, "neighbours do matter, although it is only a note"


def test_norms_with_statistics_are_silent() -> None:
    assert not module_hits(batch_norm(tracks_statistics=True, requires_grad=True))


def test_a_model_whose_other_parameters_train_is_silent() -> None:
    assert not module_hits(adapted(), trainable=2)


def test_unknown_flags_are_silent() -> None:
    assert not module_hits(adapted(), trainable=None)
    assert not module_hits(adapted(requires_grad=None))


def test_frozen_norms_are_silent() -> None:
    assert not module_hits(adapted(requires_grad=False))


def test_a_norm_alone_is_no_adapted_model() -> None:
    assert not module_hits(adapted(), frozen=0)


@pytest.mark.parametrize("kind", [NormKind.INSTANCE, NormKind.LAYER, NormKind.GROUP])
def test_other_kinds_are_silent(kind: NormKind) -> None:
    assert not module_hits(adapted(kind=kind))


def test_a_subclass_of_unknown_kind_leaves_the_verdict_open() -> None:
    (hit,) = module_hits(adapted(kind=NormKind.UNKNOWN))
    assert hit.settles is False
    assert hit.undecided


def test_the_page_is_what_torch_does() -> None:
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(1))
    model.train().requires_grad_(False)
    for norm in model.modules():
        if isinstance(norm, torch.nn.BatchNorm1d):
            norm.requires_grad_(True)
            norm.track_running_stats = False
            norm.running_mean = norm.running_var = None
    assert list(model.state_dict()) == ["0.weight", "0.bias", "0.num_batches_tracked"]
    for mode in (True, False):
        model.train(mode)
        assert model(torch.tensor([[6.0], [8.0]]))[0].item() == pytest.approx(-1.0, abs=1e-4)
        assert model(torch.tensor([[6.0], [4.0]]))[0].item() == pytest.approx(1.0, abs=1e-4)


def test_every_norm_over_the_batch_counts_and_pickled_modules_alone_show_it() -> None:
    (hit,) = module_hits(adapted(kind=NormKind.SYNC_BATCH))
    assert hit.settles is True and hit.undecided == ""
    assert not hits(RULE, part([adapted()], carrier=Carrier.SCRIPT, trainable=0, frozen=20))
