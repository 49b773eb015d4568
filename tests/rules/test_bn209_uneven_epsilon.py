"""BN209: layers of one kind with different epsilons."""

from __future__ import annotations

import struct

import pytest
import torch
from builders import batch_norm, hits, part

from bnaudit.description import Carrier, NormKind, NormLayer
from bnaudit.results import Hit, Severity

RULE = "bn209_uneven_epsilon"


def module_hits(*layers: NormLayer) -> list[Hit]:
    return hits(RULE, part(layers, carrier=Carrier.MODULE))


def test_the_layers_that_differ_from_the_majority_are_named() -> None:
    usual = [batch_norm(f"bn{i}", eps=1e-3) for i in range(20)]
    replaced = [batch_norm(f"block.bn{i}", eps=1e-5) for i in range(3)]
    found = module_hits(*usual, *replaced)
    assert [hit.layer for hit in found] == ["block.bn0", "block.bn1", "block.bn2"]
    assert {(hit.value, hit.limit, hit.severity) for hit in found} == {(1e-5, 1e-3, Severity.NOTE)}
    assert len({hit.message for hit in found}) == 1


def test_epsilon_0_among_others_is_a_warning() -> None:
    (hit,) = module_hits(batch_norm("a", eps=1e-5), batch_norm("b", eps=1e-5), batch_norm("c", eps=0.0))
    assert (hit.layer, hit.severity) == ("c", Severity.WARNING)
    (hit,) = module_hits(batch_norm("a", eps=0.0), batch_norm("b", eps=0.0), batch_norm("c", eps=1e-5))
    assert hit.severity is Severity.WARNING


@pytest.mark.parametrize("eps", [1e-5, 1e-3, 0.0])
def test_one_value_for_all_is_silent(eps: float) -> None:
    assert not module_hits(batch_norm("a", eps=eps), batch_norm("b", eps=eps))


def test_kinds_are_compared_among_themselves() -> None:
    assert not module_hits(
        batch_norm("bn", eps=1e-5),
        batch_norm("frozen", eps=0.0, kind=NormKind.FROZEN_BATCH),
        batch_norm("ln", eps=1e-6, kind=NormKind.LAYER),
    )


def test_unknown_epsilons_and_unknown_kinds_are_left_out() -> None:
    assert not module_hits(batch_norm("a", eps=1e-5), batch_norm("b", eps=None))
    assert not module_hits(
        batch_norm("a", eps=1e-5, kind=NormKind.UNKNOWN), batch_norm("b", eps=1e-3, kind=NormKind.UNKNOWN)
    )


def test_a_float32_epsilon_is_the_same_number() -> None:
    (as_float32,) = struct.unpack("f", struct.pack("f", 1e-5))
    assert as_float32 != 1e-5
    assert not module_hits(batch_norm("a", eps=1e-5), batch_norm("b", eps=as_float32))


def test_parts_are_compared_within_themselves() -> None:
    parts = (
        part([batch_norm(eps=1e-5)], "model", Carrier.MODULE),
        part([batch_norm(eps=1e-3)], "teacher", Carrier.MODULE),
    )
    assert not hits(RULE, *parts)


@pytest.mark.parametrize(
    ("variance", "wide", "narrow", "ratio"),
    [(1e-2, 9.53, 9.995, 1.05), (1e-4, 30.2, 95.3, 3.16), (1e-6, 31.6, 302, 9.54), (1.0, 0.9995, 1.0, 1.0005)],
)
def test_the_page_numbers_are_torchs(variance: float, wide: float, narrow: float, ratio: float) -> None:
    gains = {}
    for eps in (1e-3, 1e-5):
        norm = torch.nn.BatchNorm1d(1, eps=eps, affine=False).eval().double()
        norm.running_var.fill_(variance)
        gains[eps] = norm(torch.ones(1, 1).double()).item()
    assert gains[1e-3] == pytest.approx(wide, rel=2e-3)
    assert gains[1e-5] == pytest.approx(narrow, rel=2e-3)
    assert gains[1e-5] / gains[1e-3] == pytest.approx(ratio, rel=2e-3)


def test_torch_refuses_to_train_with_epsilon_0() -> None:
    with pytest.raises(ValueError, match="eps"):
        torch.nn.BatchNorm1d(1, eps=0.0)(torch.tensor([[1.0], [2.0]]))
