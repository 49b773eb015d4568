"""What a log of requests proves without any model: the same input with different scores.

Scores of one input may differ because of its companions in the batch, of randomness, or of history (what answered
has changed meanwhile). Each leaves a pattern of its own in when, beside what, and in which batch size the scores
differ; `evidence` looks for these patterns, and says so where they cannot be told.
"""

from __future__ import annotations

from bnaudit.diagnosis import LogEvidence
from bnaudit.observed import RequestLog


def evidence(log: RequestLog, precision: str | None = None) -> LogEvidence:
    """What the log shows. precision: `fp32`, `tf32`, `fp16` or `bf16` where it is known what production computes in."""
    from bnaudit.request_log.judging import judged
    from bnaudit.request_log.repeats import found_repeats

    return judged(found_repeats(log, precision))
