"""What `make bench` makes of the outputs of other tools and of its figures; no rival is needed for it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from bench.against import costs, found, rendering
from bench.against.found import Sort, Verdict, verdict
from bench.against.timing import ratios

CLINIC = """Loading: healthy.state.pt
Loaded 38 tensors, 5,272 parameters

================================================================================
DIAGNOSIS -- 1 finding(s) (0 errors, 1 warnings, 0 info)
================================================================================

  [WARN] dtype_mismatch (1 instance(s))
    6 params in torch.int64 (majority: torch.float32)

VERDICT: OK with 1 warning(s)
"""


def test_what_a_tool_reports_on_the_healthy_net_too_is_not_the_defect() -> None:
    assert verdict(frozenset({"a"}), frozenset({"a"}), ()) is Verdict.NOT_FOUND
    assert verdict(frozenset({"a", "b"}), frozenset({"a"}), ()) is Verdict.FOUND
    assert verdict(frozenset(), frozenset({"a"}), ()) is Verdict.NOT_FOUND


def test_a_problem_that_speaks_of_something_else_is_not_the_defect() -> None:
    noise = frozenset({"test_contract: batch_invariance"})
    assert verdict(noise, frozenset(), found.BREAKS["eval leak"]) is Verdict.FOUND
    assert verdict(noise, frozenset(), found.BREAKS["buffers reset"]) is Verdict.NOT_FOUND
    assert verdict(frozenset({"BN103 bn1"}), frozenset(), found.BREAKS["buffers reset"]) is Verdict.FOUND
    assert verdict(frozenset({"BN103 bn1"}), frozenset(), found.BREAKS["eval leak"]) is Verdict.NOT_FOUND


@pytest.mark.parametrize(
    ("problem", "sort"),
    [
        ("BN404 bn1", Sort.STATISTICS),
        ("BN204 bn1", Sort.COMPANIONS),
        ("BN303 None", Sort.UNRELATED),
        ("bn1: a counter and no running statistics", Sort.STATISTICS),
        ("bn1: no running mean", Sort.STATISTICS),
        ("/bn1/BatchNormalization: no stored statistics", Sort.STATISTICS),
        ("/bn1/BatchNormalization: training mode", Sort.MODE),
        ("/dropout/Dropout: dropout in training mode", Sort.MODE),
        ("bn1: in training mode after eval()", Sort.MODE),
        ("bn1: frozen, and in training mode after train()", Sort.FROZEN),
        ("frozen_params: 2/9 parameter(s) expected to be frozen changed", Sort.FROZEN),
        ("eval_determinism: two forward passes in eval mode differ", Sort.RANDOMNESS),
        ("exploding_norm: conv1.weight", Sort.UNSORTED),
    ],
)
def test_problems_are_sorted_by_what_they_speak_of(problem: str, sort: Sort) -> None:
    assert found.sort_of(problem) is sort


def test_a_form_that_is_the_healthy_one_shows_nothing_whatever_is_said_of_it() -> None:
    assert verdict(frozenset({"a"}), frozenset(), (), same=True) is Verdict.NOT_APPLICABLE


def test_a_tool_that_broke_found_nothing() -> None:
    assert verdict(None, frozenset(), ()) is Verdict.FAILED
    assert verdict(frozenset({"a"}), None, ()) is Verdict.FAILED


@pytest.mark.parametrize(
    ("read", "text", "code", "problems"),
    [
        (found.driver, 'noise\n{"problems": ["bn1: in training mode"]}\n', 0, {"bn1: in training mode"}),
        (found.driver, "Traceback (most recent call last):", 1, None),
        (found.picklescan, "----------- SCAN SUMMARY -----------\nInfected files: 0", 0, set()),
        (found.picklescan, "----------- SCAN SUMMARY -----------\nInfected files: 1", 1, {"infected"}),
        (found.picklescan, "usage: picklescan", 2, None),
        (found.model_clinic, CLINIC, 0, {"dtype_mismatch: 6 params in torch.int64 (majority: torch.float32)"}),
        (found.model_clinic, "Killed", -9, None),
        (found.onnx_doctor, "[]", 0, set()),
        (
            found.onnx_doctor,
            '[{"code": "ONNX003", "severity": "error", "message": "not sorted"},'
            ' {"code": "ONNX9", "severity": "info", "message": "x"}]',
            1,
            {"ONNX003: not sorted"},
        ),
        (found.onnx_doctor, "", 1, None),
        (found.polygraphy, "[I] PASSED | Runtime: 0.163s | Command: polygraphy", 0, set()),
        (found.polygraphy, "[E] FAILED | Runtime: 0.163s | Command: polygraphy", 1, {"FAILED", "failed"}),
        (found.polygraphy, "[!] Module: 'onnx' is required but could not be imported.", 1, None),
    ],
)
def test_outputs_are_read(read: found.Reader, text: str, code: int, problems: set[str] | None) -> None:
    assert read(text, code) == problems


def test_of_our_own_report_warnings_and_errors_are_read() -> None:
    findings = [
        {"rule": "BN103", "layer": "bn1", "severity": "error"},
        {"rule": "BN117", "layer": None, "severity": "warning"},
        {"rule": "BN208", "layer": "bn1", "severity": "note"},
    ]
    text = json.dumps({"artifacts": [{"findings": findings}]})
    assert found.bnaudit(text, 1) == {"BN103 bn1", "BN117 None"}
    assert found.bnaudit("", 2) is None


def lines() -> list[dict[str, Any]]:
    """Two tools on one file: 0.2 s and 40 MiB against 1 s and 30 MiB; a third was stopped."""
    common = {"format": ".pt", "megabytes": 2000, "size": 1000, "runs": 5, "trouble": "", "in_page_cache": 10}
    return [
        common | {"tool": "bnaudit inspect --static", "seconds": 0.2, "mebibytes": 40.0, "reported_bytes": 4},
        common | {"tool": "loop", "seconds": 1.0, "mebibytes": 30.0, "in_page_cache": None},
        common | {"tool": "slow", "seconds": None, "mebibytes": None, "trouble": "over 120 s"},
    ]


def test_ratios_are_theirs_against_ours_and_missing_where_either_is() -> None:
    ours, loop, slow = entries = lines()
    ratios(entries)
    assert ours["seconds_ratio"] == 1.0
    assert loop["seconds_ratio"] == pytest.approx(5.0)
    assert loop["mebibytes_ratio"] == pytest.approx(0.75)
    assert slow["seconds_ratio"] is None


def result() -> dict[str, Any]:
    entries = lines()
    ratios(entries)
    cells = {name: {"verdict": "found", "problems": ["BN"]} for name in found.BREAKS}
    row = {"tool": "bnaudit.audit", "form": "module.pt", "cells": cells, "healthy": {"verdict": "", "problems": []}}
    return {
        "machine": {
            "processor": None,
            "cores": 2,
            "memory_gib": 4,
            "system": "Linux x86_64",
            "python": "3.11.7",
            "date": "2026-01-01",
        },
        "rounds": 5,
        "versions": {"bnaudit": "0.1.0"},
        "rivals": {"picklescan": {}},
        "speed": entries,
        "found": [row],
        "not_usable": [{"tool": "absent", "why": "No module named 'absent'"}],
    }


def test_the_section_says_where_another_is_better_and_what_is_not_known() -> None:
    text = rendering.markdown(result())
    assert "| .pt: loop | 1.00 s (×5) | 30 MiB | not known |" in text
    assert "| .pt: bnaudit inspect --static | 0.20 s | 40 MiB | 1 %, by its own count 0.4 % |" in text
    assert "| .pt: slow | over 120 s |" in text
    assert "In less memory than bnaudit: loop (.pt 2 GB)" in text
    assert "Faster than bnaudit: nothing" in text
    assert "absent could not be used here: No module named 'absent'" in text
    assert "processor not known" in text


def test_what_is_too_short_for_two_digits_says_so() -> None:
    quick = result()
    quick["speed"][1] |= {"seconds": 0.0004, "seconds_ratio": 0.002, "runs": 1, "in_page_cache": 999}
    expected = "| .pt: loop | **below 0.01 s once (below ×0.01)** | 30 MiB | 100 % |"
    assert expected in rendering.markdown(quick)


def test_a_missed_defect_or_a_false_alarm_of_ours_fails_the_run() -> None:
    assert rendering.sound(result())
    missed = result()
    missed["found"][0]["cells"]["eval leak"]["verdict"] = "not found"
    assert not rendering.sound(missed)
    assert "bnaudit does not find in any form: eval leak" in rendering.markdown(missed)
    alarm = result()
    alarm["found"][0]["healthy"]["problems"] = ["BN301 None"]
    assert not rendering.sound(alarm)


def test_a_rival_that_finds_more_is_named() -> None:
    more = result()
    more["found"][0]["cells"]["no tracking"]["verdict"] = "not found"
    cells = {name: {"verdict": "found", "problems": ["x"]} for name in found.BREAKS}
    more["found"].append(more["found"][0] | {"tool": "other", "cells": cells})
    assert "not by bnaudit, given the same form: other (no tracking)" in rendering.markdown(more)


@pytest.mark.skipif(not hasattr(os, "wait4"), reason="the benchmark needs os.wait4")
def test_a_process_is_measured_and_ended_at_its_limit(tmp_path: Path) -> None:
    code = "import sys, time; held = bytearray(60 << 20); print('out'); print('err', file=sys.stderr); sys.exit(3)"
    done = costs.run([sys.executable, "-c", code], os.environ, tmp_path / "log.txt")
    assert (done.code, done.stopped, done.text, done.complaint) == (3, "", "out\n", "err\n")
    assert 60 < done.mebibytes < 400
    held = bytes(100 << 20)
    small = costs.run([sys.executable, "-S", "-c", "pass"], os.environ, tmp_path / "log.txt")
    assert small.mebibytes < 60 < len(held) >> 20  # it does not begin at the size of this process
    sleeping = [sys.executable, "-c", "import time; time.sleep(60)"]
    stopped = costs.run(sleeping, os.environ, tmp_path / "log.txt", seconds=1.0)
    assert stopped.stopped == "over 1 s"
    assert stopped.seconds < 30


def test_what_is_brought_in_is_the_part_that_was_read_or_not_known(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(32 << 20))

    def head() -> None:
        with path.open("rb") as file:
            file.read(4096)

    some, everything = costs.brought_in(path, head), costs.brought_in(path, lambda: costs.warm(path))
    assert some is None or 4096 <= some < 16 << 20
    assert everything is None or everything == 32 << 20
