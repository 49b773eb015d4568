"""Runs two models on the same inputs, one after the other, and says how far apart they are and from where on."""

from __future__ import annotations

import warnings

import numpy as np

from bnaudit.comparison import ComparedRun, Matching, OutputPair
from bnaudit.description import Carrier
from bnaudit.errors import not_installed
from bnaudit.matching import moves
from bnaudit.measuring import Chosen, opened
from bnaudit.parting.eval_check import in_eval
from bnaudit.parting.first_parting import partings, parts_at
from bnaudit.parting.inputs import Inputs, open_inputs, repeatable
from bnaudit.parting.norm_pairs import call_pairs
from bnaudit.parting.output_pairs import Together, compared, paired
from bnaudit.parting.rounding import HALVES, LEAST, Measurable, Rounding, best_side, measured
from bnaudit.parting.side import Ran, run_side
from bnaudit.progress import Progress
from bnaudit.run_options import RunOptions
from bnaudit.session import NotPossibleError, RunError
from bnaudit.shifts import epsilon

_SHAPELESS = (Carrier.MODULE, Carrier.SCRIPT, Carrier.STATE_DICT)
"""What does not declare its inputs."""
_SURELY = 0.25
"""Share of an output's scale beyond which nobody measures whether rounding may have made it."""


def compare_runs(
    baseline: Chosen, subject: Chosen, options: RunOptions, matching: Matching, progress: Progress
) -> ComparedRun:
    """The same inputs through both, one session open at a time.

    Raises NotPossibleError when one of the two cannot be run or raises, and UsageError and UnreadableError as the
    inputs do (`open_in_order`).
    """
    for name, chosen in (("baseline", baseline), ("subject", subject)):
        if chosen.runner is None:
            remedy = "" if chosen.needs in chosen.why_not else f"give {chosen.needs}"
            raise NotPossibleError(f"the {name} cannot be run: {chosen.why_not}", remedy=remedy)
    try:
        return _run(baseline, subject, repeatable(options), matching, progress)
    except MemoryError as error:
        remedy = "give a smaller --batch-size"
        raise NotPossibleError(f"memory is short: {error}", remedy=remedy) from error
    except ModuleNotFoundError as error:
        known = not_installed(error)
        if known is None:
            raise
        raise NotPossibleError(known.what, remedy=known.remedy) from error


def _run(baseline: Chosen, subject: Chosen, options: RunOptions, matching: Matching, progress: Progress) -> ComparedRun:
    order = [("baseline", baseline), ("subject", subject)]
    if options.inputs is None and _is_shapeless(baseline) and not _is_shapeless(subject):
        order.reverse()  # what declares its inputs says what is made
    ran: dict[str, Ran] = {}
    made: Inputs | None = None
    with np.errstate(all="ignore"):
        for name, chosen in order:
            most = min((side.samples for side in ran.values()), default=1 << 60)
            ran[name], inputs = _ran(name, chosen, made, options, progress, most)
            made = inputs if inputs.synthetic else None
        sides = (Measurable("baseline", baseline, ran["baseline"]), Measurable("subject", subject, ran["subject"]))
        rounding = _Rounding(sides, made, options, progress)
        return _compared(ran["baseline"], ran["subject"], inputs, matching, rounding)


def _is_shapeless(chosen: Chosen) -> bool:
    described = chosen.subject.description
    return described is None or all(part.carrier in _SHAPELESS for part in described.parts)


def _ran(
    name: str, chosen: Chosen, made: Inputs | None, options: RunOptions, progress: Progress, most: int
) -> tuple[Ran, Inputs]:
    try:
        with opened(chosen) as session:
            session.entered = progress.layer
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the user's loader, and of frameworks that read files
                inputs = made or open_inputs(session, options)
            return run_side(session, inputs, options, progress, f"the {name}", most), inputs
    except RunError as error:
        remedy = "give inputs that both take with --inputs" if made else "give inputs as the model takes them"
        on = "synthetic inputs" if made else "these inputs"
        raise NotPossibleError(f"the {name} raised on {on}: {error.what}", where=error.where, remedy=remedy) from error
    except NotPossibleError as error:
        raise NotPossibleError(
            f"the {name} cannot be run: {error.what}", where=error.where, remedy=error.remedy
        ) from error


class _Rounding:
    """Rounding, measured once and only when a difference asks for it."""

    def __init__(
        self, sides: tuple[Measurable, Measurable], made: Inputs | None, options: RunOptions, progress: Progress
    ) -> None:
        self._sides = sides
        self._given = made, options, progress
        self._made: tuple[Rounding | None, str] | None = None

    def measure(self, dtype: str) -> Rounding | None:
        steady = [side for side in self._sides if in_eval(side.ran)[0] is not False]
        if self._made is None and steady:  # batches of another size would move the others
            self._made = measured(best_side(steady, dtype), dtype, *self._given)
        return self.done

    @property
    def done(self) -> Rounding | None:
        """What was measured, if it was."""
        return self._made[0] if self._made is not None else None

    @property
    def remarks(self) -> tuple[str, ...]:
        if self._made is None:
            return ()
        rounding, why = self._made
        return (why,) if rounding is None else (f"rounding was measured: the {rounding.side.name} in {rounding.how}",)


def _compared(baseline: Ran, subject: Ran, inputs: Inputs, matching: Matching, rounding: _Rounding) -> ComparedRun:
    together, said = paired(baseline, subject)
    if not together:
        raise NotPossibleError("the two return no output that could be compared", remedy="give models of one task")
    dtype = max((baseline.dtype, subject.dtype, *_stored(matching)), key=epsilon)
    outputs = tuple(_output(baseline, subject, pair, dtype, rounding) for pair in together)
    pairs = call_pairs(baseline, subject, matching)
    differ = any(map(beyond, outputs))
    found = partings(pairs, dtype, rounding.done)
    reference, reference_why = in_eval(baseline)
    subject_in_eval, subject_why = in_eval(subject)
    return ComparedRun(
        runners=(baseline.runner, subject.runner),
        inputs=inputs.name,
        synthetic=inputs.synthetic,
        samples=min(baseline.samples, subject.samples),
        outputs=outputs,
        partings=found,
        parts_at=parts_at(found, pairs, dtype) if differ else "",
        flips=sum(output.shift.flips for output in outputs),
        decisions=sum(output.shift.decisions for output in outputs),
        reference_in_eval=reference,
        reference_why=reference_why,
        subject_in_eval=subject_in_eval,
        remarks=tuple(
            dict.fromkeys(
                (
                    *inputs.remarks,
                    *said,
                    *_unwatched(baseline, subject, bool(found)),
                    *((f"the subject: {subject_why}",) if subject_why else ()),
                    *rounding.remarks,
                    *baseline.remarks,
                    *subject.remarks,
                )
            )
        ),
    )


def _output(baseline: Ran, subject: Ran, pair: Together, dtype: str, rounding: _Rounding) -> OutputPair:
    """Against what rounding is taken to be; where that is exceeded, or wide, against what it is measured to be."""
    found = compared(baseline, subject, pair)
    shift, wide = found.shift, dtype in HALVES
    if shift.exact or shift.shapes or not (wide or beyond(found)) or not found.floor:
        return found
    coarsest = max((dtype, shift.dtype), key=epsilon)
    least = LEAST * epsilon(coarsest) * shift.scale
    if wide and shift.difference <= least:
        return compared(baseline, subject, pair, least)
    form = rounding.measure(dtype) if shift.difference <= _SURELY * shift.scale else None
    if form is None:
        return found
    index = pair.baseline if form.side.name == "baseline" else pair.subject
    return compared(baseline, subject, pair, form.floor(index, coarsest, shift.scale))


def _stored(matching: Matching) -> set[str]:
    """To which half precision one side was rounded when it was stored, whatever it computes in."""
    return {move.rounding for move in moves(matching) if move.rounding in HALVES}


def beyond(output: OutputPair) -> bool:
    """Whether the two differ by more than rounding."""
    return not output.shift.exact and not output.shift.difference <= output.floor


def _unwatched(baseline: Ran, subject: Ran, watched: bool) -> list[str]:
    """Why there is no first place, where norms could not be followed."""
    if watched:
        return []
    for name, ran in (("baseline", baseline), ("subject", subject)):
        if ran.part.folded:
            return [f"the {name} has its norms folded into other layers: only outputs were compared"]
    for name, ran in (("baseline", baseline), ("subject", subject)):
        if not any(seen.mean is not None for seen in ran.norms):
            return [f"no batch norm of the {name} was watched: only outputs were compared"]
    return ["no norm layer of the two was paired: only outputs were compared"]
