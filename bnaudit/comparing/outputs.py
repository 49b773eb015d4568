"""The measured half of a comparison: the same inputs through both, where that was asked for and can be done."""

from __future__ import annotations

from typing import NamedTuple

from bnaudit.comparing.parts import Choice
from bnaudit.comparing.sides import Side
from bnaudit.comparison import ComparedRun
from bnaudit.errors import BnauditError, UsageError
from bnaudit.progress import Progress
from bnaudit.run_options import RunOptions

_WANTED = "--inputs x.npz, and for a state dict its code, --model file.py:callable"


class ComparedOutputs(NamedTuple):
    """What came of running both."""

    run: ComparedRun | None = None
    not_run: str = ""
    """Why outputs were not compared."""
    needs: str = ""
    """What to give so that they are."""
    failed: bool = False
    """What the user asked for could not be done."""


def outputs_of(
    baseline: Side, subject: Side, choice: Choice, options: RunOptions, progress: Progress
) -> ComparedOutputs:
    """Run both on the same inputs. Nothing is run, and no framework imported, unless a run was asked for."""
    if options.static:
        return ComparedOutputs(not_run="--static was given", needs="a run, without --static")
    live = baseline.path is None or subject.path is None
    asked = live or options.model is not None or options.inputs is not None or options.run or options.trust_pickle
    if not asked:
        return ComparedOutputs(not_run="no inputs were given", needs=_WANTED)
    both = baseline.chosen(choice.baseline), subject.chosen(choice.subject)
    for side, chosen in zip((baseline, subject), both, strict=True):
        if chosen.runner is None:
            return ComparedOutputs(not_run=f"{side.name}: {chosen.why_not}", needs=chosen.needs)
    try:
        from bnaudit.parting import compare_runs

        return ComparedOutputs(compare_runs(*both, options, choice.matching, progress))
    except UsageError:
        raise
    except BnauditError as error:
        return ComparedOutputs(not_run=str(error), failed=True)
