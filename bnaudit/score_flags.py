"""Options of observed scores, the same in every command that takes them."""

from __future__ import annotations

from enum import Enum
from typing import Any

import typer


class Kind(str, Enum):
    """What the scores are."""

    logits = "logits"
    probabilities = "probabilities"
    labels = "labels"
    embeddings = "embeddings"


class Precision(str, Enum):
    """What production computed in."""

    fp32 = "fp32"
    tf32 = "tf32"
    fp16 = "fp16"
    bf16 = "bf16"


def of_scores(help: str, *names: str) -> Any:
    """An option in the panel of the observed scores."""
    return typer.Option(*names, help=help, rich_help_panel="The observed scores", show_default=False)
