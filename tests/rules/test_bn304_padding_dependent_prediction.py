"""BN304: longer companions."""

from __future__ import annotations

import pytest
import torch
from measured import EXACT, LARGE, NOISE, mixing, run_hits, swap

from bnaudit.measurement import Padding, Shift

RULE = "bn304_padding_dependent_prediction"


def padding(shift: Shift = LARGE) -> Padding:
    return Padding(shift=shift, axis=1, lengths=(12, 20))


def test_a_prediction_that_moves_with_the_length_is_found() -> None:
    (hit,) = run_hits(RULE, padding())
    assert (hit.layer, hit.value, hit.limit) == (None, 0.5, 1.5e-5)
    assert hit.message.startswith("padded from 12 to 20 along axis 1, a prediction differs by 0.5")


@pytest.mark.parametrize("shift", [EXACT, NOISE])
def test_rounding_is_silent(shift: Shift) -> None:
    assert not run_hits(RULE, padding(shift))


def test_companions_that_matter_at_any_length_are_told_by_their_own_rule() -> None:
    assert not run_hits(RULE, padding(), swap(mixing()))
    assert len(run_hits(RULE, padding(), swap(other=EXACT, scaled=EXACT, leaks=False))) == 1


def test_without_a_measurement_it_is_silent() -> None:
    assert not run_hits(RULE)


def test_the_page_is_what_torch_does() -> None:
    norm = torch.nn.InstanceNorm1d(1)
    assert norm(torch.tensor([[[1.0, 3.0]]])).flatten().tolist() == pytest.approx([-1.0, 1.0], abs=1e-4)
    padded = norm(torch.tensor([[[1.0, 3.0, 0.0, 0.0]]])).flatten().tolist()
    assert padded == pytest.approx([0.0, 1.63, -0.82, -0.82], abs=5e-3)


def test_the_fix_on_the_page_is_blind_to_padding() -> None:
    def masked(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(x.shape[-1])
        mask = (positions < lengths[:, None, None]).to(x.dtype)
        mean = (x * mask).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True)
        var = ((x - mean) ** 2 * mask).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True)
        return (x - mean) / torch.sqrt(var + 1e-5) * mask

    lengths = torch.tensor([2])
    short, long = torch.tensor([[[1.0, 3.0]]]), torch.tensor([[[1.0, 3.0, 0.0, 7.0]]])
    assert torch.equal(masked(short, lengths), masked(long, lengths)[..., :2])
