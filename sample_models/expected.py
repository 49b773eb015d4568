"""What an audit must say of a sample: of the file alone, and when it is run."""

from __future__ import annotations

from typing import NamedTuple


class Expected(NamedTuple):
    """A finding at warning or above."""

    rule: str
    layers: tuple[str, ...] | None
    """Stored names in file order; None: the whole artifact, or a graph's layers under the graph's own names."""


class Run(NamedTuple):
    """How a sample is run on the digits, and what must be found then.

    `findings` are complete at warning and above, together with those of the file alone, but for the rules of `also`.
    """

    model: str = ""
    """The factory that a checkpoint is loaded into: a file below `sample_models/` and a callable."""
    allowed: str = ""
    """What has to be allowed: `run`, or `trust_pickle`."""
    findings: tuple[Expected, ...] = ()
    also: tuple[str, ...] = ()
    """Rules that see the same defect from another side and may speak, too."""
    intended: tuple[tuple[str, str], ...] = ()
    """What is meant to be so: rule and pattern of layer names."""
    fails: tuple[str, ...] = ()
    """The questions that fail; all others pass but for those of `open`."""
    open: tuple[str, ...] = ()
    """The questions that stay undecided."""


class Against(NamedTuple):
    """What comparing a sample with another one must say.

    `findings` are complete at warning and above, `notes` must be among the notes.
    """

    baseline: str
    """The sample that is trusted, below `sample_models/`."""
    findings: tuple[Expected, ...] = ()
    notes: tuple[str, ...] = ()


class Sample(NamedTuple):
    """One file or folder. `findings` is complete at warning and above; `notes` must be among the notes."""

    about: str
    findings: tuple[Expected, ...] = ()
    notes: tuple[str, ...] = ()
    run: Run | None = None
    """None: it cannot be run (or, by design, must not be)."""
    against: Against | None = None
    """What it is compared with, of the samples in `compare/`."""
