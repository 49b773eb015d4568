"""BN406: one value per statistic."""

from __future__ import annotations

import pytest
import torch
from builders import batch_norm, description, part
from measured import norm_size, place, run_hits

from bnaudit.description import Carrier, NormKind
from bnaudit.records import replace

RULE = "bn406_constant_output_norm"


def single(**fields: object) -> object:
    return norm_size("gn", values=1, **{"uses_batch": True, "is_batch_norm": False, **fields})


def test_a_norm_of_single_values_is_found() -> None:
    (hit,) = run_hits(RULE, single())
    assert (hit.layer, hit.value, hit.limit, hit.severity) == ("gn", 1, 2, None)
    assert "does not depend on its input" in hit.message


def test_two_values_are_silent() -> None:
    assert not run_hits(RULE, norm_size("gn", values=2, uses_batch=True, is_batch_norm=False))


def test_stored_statistics_need_no_values() -> None:
    assert not run_hits(RULE, norm_size("bn1", values=1))


def test_batch_norm_on_one_sample_in_training_form_is_found() -> None:
    assert len(run_hits(RULE, single(is_batch_norm=True))) == 1


def test_rms_norm_keeps_the_sign_and_the_finding_says_so() -> None:
    subject = description(part([batch_norm("gn", kind=NormKind.RMS)], carrier=Carrier.MODULE))
    (hit,) = run_hits(RULE, single(), subject=subject)
    assert "the sign of its input" in hit.message
    assert torch.nn.RMSNorm(1)(torch.tensor([[5.0], [-3.0]])).flatten().tolist() == pytest.approx([1.0, -1.0])


def test_several_calls_of_a_layer_are_one_hit() -> None:
    assert len(run_hits(RULE, single(), single())) == 1


def test_the_page_is_what_torch_does() -> None:
    inputs = torch.tensor([[1.0, 2.0, 3.0, 4.0], [50.0, -6.0, 7.0, 0.1]])
    assert torch.nn.GroupNorm(4, 4)(inputs).abs().max() < 1e-3
    grouped, layered = torch.nn.GroupNorm(1, 4)(inputs), torch.nn.LayerNorm(4)(inputs)
    assert torch.allclose(grouped, layered, atol=1e-6)
    assert grouped.std() > 0.5


@pytest.mark.parametrize("kind", [NormKind.GROUP, NormKind.LAYER])
def test_other_norms_keep_nothing(kind: NormKind) -> None:
    subject = description(part([batch_norm("gn", kind=kind)], carrier=Carrier.MODULE))
    (hit,) = run_hits(RULE, single(), subject=subject)
    assert hit.message == "one value per statistic: its output does not depend on its input (BatchNorm1d)"


def test_where_nothing_is_known_of_the_place_nothing_is_told() -> None:
    bare = replace(single(), place=place("gn", ""))  # type: ignore[type-var]
    (hit,) = run_hits(RULE, bare)
    assert hit.message == "one value per statistic: its output does not depend on its input"
