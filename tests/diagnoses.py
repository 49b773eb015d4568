"""Diagnoses with something in every field, for what shows them."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from bnaudit.description import Artifact
from bnaudit.diagnosis import (
    Conclusion,
    Diagnosis,
    Distinguishing,
    FamilyMatch,
    Hypothesis,
    LogEvidence,
    Tried,
)
from bnaudit.variation import Altered, Variation

HOSTILE = "layer\x1b[31m\n\u202e[bold]\ud800"


def tried(claim: str, residual: float, *, layers: tuple[str, ...] = (), name: str = "training-mode") -> Tried:
    altered = {layer: Altered(training=True, mean=np.zeros(2), eps=1e-3) for layer in layers}
    hypothesis = Hypothesis(
        name=name,
        claim=claim,
        advice="call model.eval() after loading",
        layers=layers,
        batching="alone",
        variation=Variation(layers=MappingProxyType(altered)),
    )
    return Tried(hypothesis=hypothesis, residual=residual, floor=2.9e-4, agreement=0.875, coincides_with=("other",))


def evidence(*points_to: str, differing: int = 3) -> LogEvidence:
    return LogEvidence(
        observations=40,
        inputs=10,
        repeated=8,
        differing=differing,
        spread=1.25,
        limit=1e-3,
        scatter_by_size=((1, 4, 0.0), (8, 32, 0.5)),
        common_error=0.4,
        points_to=points_to,
        reasons=("8 of 10 inputs were observed more than once.", "Different inputs of one request share 40 %."),
        needs=("a column `time`",),
        examples=("7", HOSTILE),
    )


def full(conclusion: Conclusion = Conclusion.EXPLAINED, **changes: object) -> Diagnosis:
    """Everything that a triage with a model may say."""
    best = tried("layer1.bn2 ran in training mode, every input by itself", 3e-4, layers=("layer1.bn2",))
    every = (best, *(tried(f"account number {i}", 0.5 + i) for i in range(14)), tried("it raised", float("inf")))
    values: dict[str, object] = {
        "version": "0.1.0",
        "artifact": Artifact(path="trained.pt", format="PyTorch zip checkpoint", size=10, bytes_read=10),
        "observed": "scores.csv, 120 rows of 10 logits, 3 decimals",
        "conclusion": conclusion,
        "reason": "the residual of 0.0003 is at the floor of 0.00029, the nearest rival is 1700 × further away",
        "explanations": (best,),
        "tried": every,
        "unseen": ("pixels were divided by 255 twice",),
        "coinciding": (("eval as saved", "epsilon 0"),),
        "families": (
            FamilyMatch(
                name="dropout",
                claim="dropout was in training mode",
                inside=0.9,
                signature="the scores are one more draw",
                consistent=True,
                needs="nothing",
            ),
        ),
        "log": evidence("companions"),
        "distinguishing": Distinguishing(rows=(4, 2), mixtures=((1, 3, 0.25),), separation=12.5),
        "untried": (("training mode beside other inputs", "--companions"), ("another part", "a factory")),
        "margin": 1700.0,
        "inputs": "x.npz, 120 samples",
        "runner": "PyTorch 2.13.0",
        "forwards": 62,
        "seconds": 1.5,
        "remarks": ("the scores are float16",),
    }
    return Diagnosis(**{**values, **changes})


def of_log(*points_to: str, differing: int = 3) -> Diagnosis:
    """What a log alone shows."""
    proved = Conclusion.PROVED_BY_LOG if points_to else Conclusion.NOT_EXPLAINED
    log = evidence(*points_to, differing=differing)
    return Diagnosis(
        version="0.1.0", artifact=None, observed="log.csv", conclusion=proved, reason=log.reasons[0], log=log
    )
