"""BN210: SyncBatchNorm where one process loads the file."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from builders import batch_norm, hits, part

from bnaudit.description import Carrier, NormKind, NormLayer
from bnaudit.results import Severity

RULE = "bn210_sync_norm_at_serving"


def sync(**fields: Any) -> NormLayer:
    return batch_norm(kind=NormKind.SYNC_BATCH, **fields)


@pytest.mark.parametrize("carrier", [Carrier.MODULE, Carrier.SCRIPT])
def test_with_statistics_it_is_a_note(carrier: Carrier) -> None:
    (hit,) = hits(RULE, part([sync(tracks_statistics=True)], carrier=carrier))
    assert hit.severity is None, "the rule's own severity, note"


def test_without_statistics_it_is_an_error() -> None:
    layer = sync(tracks_statistics=False, mean=None, var=None, counter=None)
    (hit,) = hits(RULE, part([layer], carrier=Carrier.MODULE), has_optimizer=True)
    assert hit.severity is Severity.ERROR


def test_a_training_checkpoint_may_hold_it() -> None:
    assert not hits(RULE, part([sync()], carrier=Carrier.MODULE), has_optimizer=True)


def test_an_ordinary_batch_norm_is_silent() -> None:
    assert not hits(RULE, part([batch_norm(tracks_statistics=True)], carrier=Carrier.MODULE))


def test_an_unknown_kind_is_silent() -> None:
    assert not hits(RULE, part([batch_norm(kind=NormKind.UNKNOWN)], carrier=Carrier.MODULE))


def test_a_state_dict_does_not_show_the_class() -> None:
    assert not hits(RULE, part([sync()]))


def test_the_page_is_what_torch_does() -> None:
    norm = torch.nn.SyncBatchNorm(1, affine=False, track_running_stats=False).eval()
    assert norm(torch.tensor([[6.0], [8.0]]))[0].item() == pytest.approx(-1.0, abs=1e-4)
    assert norm(torch.tensor([[6.0], [4.0]]))[0].item() == pytest.approx(1.0, abs=1e-4)


def revert(module: torch.nn.Module) -> None:
    for name, child in module.named_children():
        if isinstance(child, torch.nn.SyncBatchNorm):
            norm = torch.nn.BatchNorm2d(child.num_features, child.eps, child.momentum, child.affine)
            norm.load_state_dict(child.state_dict())
            setattr(module, name, norm.train(child.training))
        revert(child)


def test_the_pages_way_back_keeps_the_function() -> None:
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 1), torch.nn.Sequential(torch.nn.BatchNorm2d(2, eps=1e-3)))
    for _ in range(3):
        plain(torch.randn(4, 1, 3, 3))
    given = torch.randn(2, 1, 3, 3)
    expected = plain.eval()(given)
    synced = torch.nn.SyncBatchNorm.convert_sync_batchnorm(plain)
    revert(synced)
    assert isinstance(synced[1][0], torch.nn.BatchNorm2d)
    assert torch.equal(synced.eval()(given), expected)
