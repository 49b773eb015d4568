"""`bnaudit gate` and `bnaudit baseline create` behind their options: the policy, the audits, the reports, the code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from bnaudit.artifact_settings import ArtifactSettings
from bnaudit.auditing import audit_targets, examine_live, report_of, rule_names
from bnaudit.baseline import baseline_text, failing_now, read_baseline
from bnaudit.clean_stdout import stdout_kept_clean
from bnaudit.early_exit import early_exit_told
from bnaudit.errors import UsageError
from bnaudit.output import check_writable, view, write
from bnaudit.policy import Matching, Policy, load, unmatched
from bnaudit.printable import printable
from bnaudit.progress_bar import ProgressBar
from bnaudit.records import Record, replace
from bnaudit.report_files import (
    Destination,
    check_not_models,
    check_not_read,
    destinations,
    write_reports,
    write_whole,
)
from bnaudit.results import Acceptance, Report
from bnaudit.streaming import stream
from bnaudit.targets import Targets, expand
from bnaudit.terminal.amounts import plural
from bnaudit.terminal.console_text import console_text
from bnaudit.terminal.tally import tally
from bnaudit.worker_pool import default_jobs

_NOTHING = "name files or folders, or `paths` in the settings"


class Order(Record):
    """What a command line asks of a gate."""

    paths: tuple[str, ...] = ()
    """Empty: those of the settings, or the live model of `typed`."""
    config: str | None = None
    typed: Mapping[str, object] = MappingProxyType({})
    """Options that were typed, in the vocabulary of the settings."""
    outputs: tuple[str, ...] = ()
    show_accepted: bool = False
    all_layers: bool = False
    exit_zero: bool = False
    jobs: int | None = None
    resume: bool = False


def gate(order: Order) -> int:
    """Audit under the policy, write every report, and give the exit code.

    Raises UsageError for settings, outputs or rules that are wrong, before anything is audited.
    """
    policy = load(order.config, Path.cwd(), order.typed)
    places = destinations(order.outputs)
    targets = _targets(policy, order)
    check_not_read(places, _read(policy, targets))
    check_not_models(places, targets.paths)
    accepted = _baseline(policy)
    if (lines := _streamed(places)) is not None and not _is_live(policy, order):
        return _gate_streaming(policy, targets, order, accepted, lines)
    if order.resume:
        what = "--resume goes on with a file of results"
        raise UsageError(what, remedy="give --output jsonl=PATH, and no other file")
    report = _audited(policy, targets, order, accepted)
    report = replace(report, gate=True, exit_zero=order.exit_zero, unmatched=unmatched(policy, report, accepted))
    write_reports(report, places, view(in_full=order.all_layers, show_accepted=order.show_accepted))
    return report.exit_code()


def show_settings(order: Order) -> int:
    """Print what is in force and where each value came from."""
    policy = load(order.config, Path.cwd(), order.typed)
    _baseline(policy)
    write(policy.shown(_targets(policy, order).paths if order.paths or policy.paths else ()))
    return 0


def create_baseline(order: Order, output: str, overwrite: bool, reason: str) -> int:
    """Write a baseline of all that would fail the gate now. Returns 2 when something could not be audited, 3 when
    nothing was; otherwise 0. Raises UsageError when the file is there and may not be overwritten.
    """
    path = Path(output)
    check_writable(path, f"--output {output}", ".bnaudit-baseline.json")
    known = _before(path, overwrite) if os.path.lexists(path) else ()
    policy = load(order.config, Path.cwd(), order.typed)
    targets = _targets(policy, order)
    if os.path.realpath(path) in {os.path.realpath(each) for each in targets.paths}:
        raise UsageError("the baseline would overwrite a model", where=f"--output {path}", remedy="give another path")
    report = _audited(policy, targets, order, ())
    if report.interrupted:
        return report.exit_code()
    if report.audits:
        write_whole(path, baseline_text(report, path, reason, known))
        _tell_baseline(report, path)
    for entry in report.unaudited:
        sys.stderr.write(f"bnaudit: {printable(entry.why)}\n")
    for audit in report.audits:
        if audit.exit_code == 2:
            sys.stderr.write(f"bnaudit: {printable(audit.artifact.path)} could not be audited wholly: inspect it\n")
    code = report.exit_code()
    return code if code in (2, 3) else 0


def _before(path: Path, overwrite: bool) -> tuple[Acceptance, ...]:
    """The baseline that is there, to be made anew. Raises UsageError when it is none, or may not be."""
    where = f"--output {path}"
    try:
        known = read_baseline(path)
    except UsageError as error:
        what = "what is there already is no baseline that can be read"
        raise UsageError(what, where=where, remedy="take it away, or give another path") from error
    if not overwrite:
        remedy = "give --overwrite to make it anew, reasons are kept"
        raise UsageError("a baseline is there already", where=where, remedy=remedy)
    return known


def _tell_baseline(report: Report, path: Path) -> None:
    failing = [(finding.artifact, finding.fingerprint) for audit in report.audits for finding in failing_now(audit)]
    found, artifacts = plural(len(set(failing)), "finding"), len({artifact for artifact, _ in failing})
    file = printable(str(path))
    write(
        f"accepted {found} in {artifacts} of {plural(len(report.audits), 'artifact')}: {file}\n"
        f"use it with `bnaudit gate --baseline {file}`, or `baseline` in the settings\n"
    )


def _targets(policy: Policy, order: Order) -> Targets:
    given: Sequence[str | Path] = order.paths or policy.paths
    if not given:
        if not _is_live(policy, order):
            raise UsageError("there is nothing to audit", remedy=_NOTHING)
        return Targets((), (), 0)
    targets = expand(given, policy.settings(None).caps, policy.excludes, policy.sections_for)
    if not order.paths:
        policy.refuse_idle_sections(targets.paths)
    return targets


def _read(policy: Policy, targets: Targets) -> Iterator[tuple[str, str | Path]]:
    """What it is and where, of each file that this gate reads beside the models."""
    if policy.source:
        yield "the settings", policy.source
    if policy.baseline is not None:
        yield "the baseline", policy.baseline
    for run in {id(each): each.run for each in map(policy.settings, (None, *targets.paths))}.values():
        yield from (("the inputs", run.inputs),) if isinstance(run.inputs, str) else ()
        yield from (("the model's code", run.model.rpartition(":")[0]),) if isinstance(run.model, str) else ()
        yield from (("a library of operators", path) for path in run.custom_ops)


def _baseline(policy: Policy) -> tuple[Acceptance, ...]:
    return read_baseline(policy.baseline) if policy.baseline is not None else ()


def _is_live(policy: Policy, order: Order) -> bool:
    """A model of the command line, and no file: of settings that name files which are gone, nothing is left to pass."""
    return not (order.paths or policy.names_artifacts) and order.typed.get("model") is not None


def _audited(policy: Policy, targets: Targets, order: Order, accepted: tuple[Acceptance, ...]) -> Report:
    settings_for = ArtifactSettings(policy, accepted)
    rule_names(settings_for(None))  # a rule that does not exist is told before anything is read
    with stdout_kept_clean(), early_exit_told(), ProgressBar() as bar:
        if _is_live(policy, order):
            return report_of(examine_live(settings_for(None), bar), settings_for(None))
        jobs = order.jobs or default_jobs(len(targets.paths))
        return audit_targets(targets, settings_for, bar, jobs)


def _streamed(places: Sequence[Destination]) -> Path | None:
    """The file of results, when it is the only report besides the one for people: nothing else needs all at once."""
    files = [each for each in places if each.path is not None]
    alone = len(files) == 1 and all(each.renderer.name == "terminal" for each in places if each.path is None)
    return files[0].path if alone and files[0].renderer.name == "jsonl" else None


def _gate_streaming(
    policy: Policy, targets: Targets, order: Order, accepted: tuple[Acceptance, ...], lines: Path
) -> int:
    _refuse_what_lines_lack(policy, targets, order, lines)
    settings_for = ArtifactSettings(policy, accepted)
    matching = Matching(policy, accepted) if accepted or policy.has_entries else None
    with stdout_kept_clean(), early_exit_told(), ProgressBar() as bar:
        jobs = order.jobs or default_jobs(len(targets.paths))
        done = stream(
            targets,
            settings_for,
            lines,
            bar,
            jobs=jobs,
            resume=order.resume,
            exit_zero=order.exit_zero,
            look=matching.look_at if matching is not None else None,
        )
    if matching is not None and not done.interrupted and not done.kept:  # earlier results may be what it fits
        done.unmatched = matching.unmatched()
    seen = view()
    write(console_text(lambda console: tally(console, done, str(lines)), seen.width, seen.color))
    return done.exit_code()


def _refuse_what_lines_lack(policy: Policy, targets: Targets, order: Order, lines: Path) -> None:
    for option, wanted in (("--show-accepted", order.show_accepted), ("--all-layers", order.all_layers)):
        if wanted:
            what = "a file of results alone shows no layers and no findings"
            raise UsageError(what, where=option, remedy="leave it out, or add a report, json=PATH")
    if any(policy.settings(path).layers for path in (None, *targets.paths)):
        # Earlier results that hold are not tried on patterns again, and a mistyped one would hide all findings.
        what = "a file of results alone is about all layers"
        raise UsageError(what, where=f"--output jsonl={lines}", remedy="leave out `layers`, or add a report, json=PATH")
