"""The same inputs through both, in the terminal: whether the reference is one, where they part, what comes out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from bnaudit.comparison import ComparedRun, Comparison, OutputPair, Parting, RoundTrip
from bnaudit.printable import printable
from bnaudit.terminal.amounts import plural

_MOST = 4


def run_texts(comparison: Comparison, *, failed: bool = False) -> list[Text]:
    """What is said of the run, a text for each line."""
    if comparison.run is not None:
        return list(_run(comparison.run))
    needs = comparison.run_needs
    arrow = f" → {printable(needs)}" if needs and needs not in comparison.not_run else ""
    head = "could not run" if failed else "outputs not compared"
    return [
        Text.assemble(
            (f"{head}: ", "bold red" if failed else "dim"), (f"{printable(comparison.not_run)}{arrow}", "dim")
        )
    ]


def _run(run: ComparedRun) -> Iterator[Text]:
    both = " and ".join(dict.fromkeys(printable(runner) for runner in run.runners))
    inputs = (printable(run.inputs), "yellow" if run.synthetic else "")
    samples = "" if "sample" in run.inputs else f" · {plural(run.samples, 'sample')}"
    yield Text.assemble(f"run: {both} · ", inputs, samples)
    if run.reference_in_eval is False:
        why = f": {printable(run.reference_why)}" if run.reference_why else ""
        yield Text(f"the baseline itself is not in eval mode, it is no reference{why}", "bold yellow")
    elif run.reference_in_eval is None:
        why = f": {printable(run.reference_why)}" if run.reference_why else ""
        yield Text(f"whether the baseline itself is in eval mode cannot be told{why}", "dim")
    if run.subject_in_eval is False:
        yield Text("the subject is not in eval mode", "yellow")
    yield from _outputs(run.outputs)
    # Where outputs differ from a reference that is one, the conclusion tells what flips and where they part.
    concluded = run.reference_in_eval is not False and not all(pair.within_floor for pair in run.outputs)
    if run.decisions and not (run.flips and concluded):
        yield Text(f"decisions that flip: {run.flips:,} of {run.decisions:,}", "yellow" if run.flips else "")
    if run.parts_at:
        if not concluded:
            yield Text.assemble("they part at ", (printable(run.parts_at), "bold"))
        others = [each for each in origins(run) if not run.parts_at.startswith(each.layer)]
        yield from (_parting(each) for each in others[:_MOST])
    yield from (Text(printable(remark), "dim") for remark in run.remarks)


def origins(run: ComparedRun) -> Sequence[Parting]:
    """Norm layers that take the same and give something else."""
    return [each for each in run.partings if each.originates]


def _outputs(outputs: Sequence[OutputPair]) -> Iterator[Text]:
    for pair in outputs:
        name = printable(pair.subject) or "output"
        yield Text.assemble((name, "bold"), f"  {_output_text(pair)}", style="" if pair.within_floor else "yellow")


def _output_text(pair: OutputPair) -> str:
    """`differs by 1.2 at most, floor 3e-06, in inputs 4, 7`."""
    shift = pair.shift
    if shift.shapes:
        return f"has other shapes: {shift.shapes}"
    if shift.exact:
        return "equal bit for bit"
    said = f"differs by {shift.difference:.3g} at most of {shift.scale:.3g}, floor {pair.floor:.2g}"
    if pair.within_floor:
        return f"equal to rounding: {said}"
    rows = f", furthest in inputs {', '.join(map(str, pair.rows[:_MOST]))}" if pair.rows else ""
    return said + rows


def _parting(each: Parting) -> Text:
    said = f"  {printable(each.layer)}: the same goes in, another comes out"
    return Text(said + (f": {printable(each.reason)}" if each.reason else ""))


def round_trip_texts(trip: RoundTrip) -> list[Text]:
    """What is said of the round trip, a text for each line."""
    if trip.not_done:
        return [Text(f"not done: {printable(trip.not_done)}", "yellow")]
    lines = [Text(f"came back otherwise: {printable(name)}", "yellow") for name in trip.changed]
    return lines + list(_outputs(trip.outputs))
