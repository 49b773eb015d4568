"""What was run, or why nothing was: the model, the inputs, the forwards, what a reader of the numbers should know."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from bnaudit.measurement import Loaded, Measured, Unmeasured
from bnaudit.obstacles import not_run_text
from bnaudit.printable import printable
from bnaudit.results import Audit
from bnaudit.terminal.amounts import plural, seconds_text


def run_lines(console: Console, audit: Audit) -> None:
    """Print the run below the verdicts that it decided; nothing when the audit does not say."""
    lines = run_texts(audit)
    for line in lines:
        console.print(Padding(line, (0, 0, 0, 2)))
    if lines:
        console.print()


def run_texts(audit: Audit) -> list[Text]:
    """What is said of the run, a text for each line."""
    return _run(audit.measured) if audit.measured is not None else _not_run(audit)


def _not_run(audit: Audit) -> list[Text]:
    if not audit.not_run and not audit.run_needs:
        return []
    head, why = not_run_text(audit)
    if not audit.run_failed:
        return [Text(f"{head}: {why}", "dim")]
    return [Text.assemble((f"{head}: ", "bold red"), why)]


def _run(measured: Measured) -> list[Text]:
    lines = [_summary(measured)]
    if measured.interrupted:
        lines.append(Text("interrupted: this is what was found so far", "bold yellow"))
    lines += [_loaded(loaded) for loaded in measured.of(Loaded)]
    if measured.synthetic:
        lines.append(
            Text("synthetic inputs show structure, not how large a gap is: --inputs gives real ones", "yellow")
        )
    lines += [Text(printable(remark), "dim") for remark in measured.remarks]
    return lines + _unmeasured(measured)


def _summary(measured: Measured) -> Text:
    located = f" + {measured.extra_forwards} to locate" if measured.extra_forwards else ""
    batch = f"batch {measured.batch_size}, {plural(measured.anchors, 'anchor')}"
    forwards = f"{plural(measured.forwards, 'forward')}{located}, {seconds_text(measured.seconds)}"
    return Text.assemble(
        f"run: {printable(measured.runner)} · ",
        (printable(measured.inputs), "yellow" if measured.synthetic else ""),
        f" · {batch} · {forwards}",
    )


def _loaded(loaded: Loaded) -> Text:
    whole = not (loaded.missing or loaded.unexpected or loaded.mismatched)
    line = Text(f"{plural(len(loaded.matched), 'norm layer')} loaded into {printable(loaded.model)}")
    for names, what in (
        (loaded.missing, "missing"),
        (loaded.unexpected, "unexpected"),
        (loaded.mismatched, "of another shape"),
    ):
        if names:
            line.append(f"; {len(names)} {what}: {_some(names)}", "yellow")
    if loaded.filled_counters:
        line.append(f"; counters that load_state_dict filled silently: {len(loaded.filled_counters)}", "yellow")
    line.stylize("dim" if whole and not loaded.filled_counters else "")
    return line


def _some(names: tuple[str, ...]) -> str:
    shown = ", ".join(printable(name) for name in names[:3])
    return f"{shown}, …" if len(names) > 3 else shown


def _unmeasured(measured: Measured) -> list[Text]:
    alike: dict[tuple[str, bool], list[Unmeasured]] = {}
    for entry in measured.unmeasured:
        # One budget stops every probe, each at another forward: the first reason stands for all.
        alike.setdefault((entry.needs if entry.inconclusive else entry.why, entry.inconclusive), []).append(entry)
    lines = []
    for (_, begun), entries in alike.items():
        named = printable(", ".join(entry.probe.replace("_", " ") for entry in entries))
        why, needs = printable(entries[0].why), printable(entries[0].needs)
        advice = f" → {needs}" if needs and "--" not in why else ""
        lines.append(Text(f"{'not finished' if begun else 'not measured'}: {named}: {why}{advice}", "yellow"))
    return lines
