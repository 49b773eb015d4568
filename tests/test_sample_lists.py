"""Lists with an entry per sample, as detectors return them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import bnaudit
from bnaudit.results import Outcome, Question, Verdict
from bnaudit.sample_lists import SampleLists
from bnaudit.session import Output, Trace


def _trace(*named: tuple[str, np.ndarray]) -> Trace:
    return Trace(outputs=tuple(Output(name=name, values=values, dtype=str(values.dtype)) for name, values in named))


def test_finds_of_every_sample_are_filled_up_and_their_number_kept() -> None:
    counts = (2, 0, 3)
    trace = _trace(
        ("['loss']", np.zeros(5, np.float32)),
        *((f"['finds'][{i}].box", np.full((count, 4), i, np.float32)) for i, count in enumerate(counts)),
        *((f"['finds'][{i}].label", np.full(count, 7, np.int64)) for i, count in enumerate(counts)),
    )
    found = {output.name: output.values for output in SampleLists().stacked(trace, 3).outputs}
    assert list(found) == [
        "['loss']",
        "['finds'][*].box",
        "size of ['finds'][*].box",
        "['finds'][*].label",
        "size of ['finds'][*].label",
    ]
    assert found["['finds'][*].box"].shape == (3, 3, 4)
    assert np.isfinite(found["['finds'][*].box"]).sum(axis=(1, 2)).tolist() == [8, 0, 12]
    assert found["size of ['finds'][*].label"].tolist() == [[2], [0], [3]]
    assert found["['finds'][*].label"].tolist() == [[7, 7, 0], [0, 0, 0], [7, 7, 7]]


def test_four_numbers_of_a_box_are_not_taken_for_four_samples() -> None:
    boxes = ((f"[{i}]['boxes']", np.zeros((5 + i, 4))) for i in range(4))
    scores = ((f"[{i}]['scores']", np.zeros(5 + i)) for i in range(4))
    found = SampleLists().stacked(_trace(*boxes, *scores), 4).outputs
    assert [output.values.shape for output in found] == [(4, 8, 4), (4, 2), (4, 8), (4, 1)]


def test_the_same_lists_are_taken_in_a_batch_of_one() -> None:
    lists = SampleLists()
    lists.stacked(_trace(*((f"[{i}]", np.zeros(i)) for i in range(4))), 4)
    alone = lists.stacked(_trace(("[0]", np.zeros(2))), 1)
    assert [(output.name, output.values.shape) for output in alone.outputs] == [
        ("[*]", (1, 2)),
        ("size of [*]", (1, 1)),
    ]


@pytest.mark.parametrize(
    "named",
    [
        [("[0]", np.zeros((4, 9))), ("[1]", np.zeros((4, 7))), ("[2]", np.zeros((4, 5))), ("[3]", np.zeros((4, 3)))],
        [(f"[{i}]", np.zeros((9, 4, 2))) for i in range(4)],
        [("[0]", np.zeros((5, 9))), ("[1]", np.zeros(3)), ("[2]", np.zeros((5, 9))), ("[3]", np.zeros((5, 9)))],
        [(f"[{i}]", np.zeros(2)) for i in range(5)],
    ],
    ids=["levels", "time first", "unlike", "too many"],
)
def test_other_lists_stay_as_they_are(named: list[tuple[str, np.ndarray]]) -> None:
    trace = _trace(*named)
    assert SampleLists().stacked(trace, 4) is trace


class _Detector(nn.Module):
    """Points above a threshold: the sample's own mean, or the batch's."""

    def __init__(self, of_batch: bool) -> None:
        super().__init__()
        self.of_batch = of_batch
        self.body = nn.Conv2d(1, 4, 3)

    def forward(self, x: torch.Tensor) -> list[dict[str, torch.Tensor]]:
        score = self.body(x).sum(1).flatten(1)
        limit = score.mean().expand(len(score)) if self.of_batch else score.mean(1)
        kept = [row > at for row, at in zip(score, limit, strict=True)]
        return [{"scores": row[keep], "where": keep.nonzero()[:, 0]} for row, keep in zip(score, kept, strict=True)]


def _neighbours(model: nn.Module, batch_size: int) -> Verdict:
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn(32, 1, 8, 8, generator=generator) + torch.randn(32, 1, 1, 1, generator=generator)
    (audited,) = bnaudit.audit(model.eval(), inputs=inputs, batch_size=batch_size).audits
    return next(verdict for verdict in audited.verdicts if verdict.question is Question.NEIGHBOURS)


@pytest.mark.parametrize("batch_size", [4, 8, 16])
def test_finds_per_sample_are_decided(batch_size: int) -> None:
    torch.manual_seed(0)
    assert _neighbours(_Detector(False), batch_size).outcome is Outcome.PASSED
    assert _neighbours(_Detector(True), batch_size).outcome is Outcome.FAILED
