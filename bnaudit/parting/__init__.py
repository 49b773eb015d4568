"""The measured half of a comparison: the same inputs through both models, and the first place where they part."""

from bnaudit.parting.comparing_runs import compare_runs

__all__ = ["compare_runs"]
