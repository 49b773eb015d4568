"""The runs of one measured audit, each made once and counted, shared by all probes."""

from __future__ import annotations


class Experiment:
    """Placeholder of the plan."""
