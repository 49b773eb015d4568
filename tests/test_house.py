"""The rules of the house: which way imports run, what the static path never loads, what files are called."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import bnaudit

PACKAGE = Path(bnaudit.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
LEVELS = (
    ("errors", "records", "plugins", "printable", "progress", "json_numbers", "json_text", "available_memory"),
    ("nearest_name", "last_days"),
    ("worker_pool", "worker_process"),
    ("caps", "user_code"),
    ("description", "layer_names"),
    (
        "results",
        "session",
        "measurement",
        "comparison",
        "variation",
        "diagnosis",
        "arithmetic",
        "name_patterns",
        "modes",
        "pickle_names",
        "finiteness",
    ),
    ("matching",),
    ("worked_arithmetic", "initial_state", "averaged_weights", "run_options", "shifts", "sample_lists"),
    ("shift_wording", "places", "gap_limits", "mixing_causes", "single_samples", "run_proofs"),
    ("feeds", "run_objects", "finding_objects", "diagnosis_objects"),
    ("norm_statistics", "forwards", "experiment", "location", "tie_break", "swap", "received", "mode_gap", "mixing"),
    ("reading", "observed"),
    ("likeness",),
    ("request_log", "triage_families"),
    ("triage",),
    ("tallies",),
    ("terminal", "obstacles", "artifact_paths", "markdown_text", "comparison_objects", "artifact_objects"),
    ("torch_session", "onnx_session", "watching"),
    ("formats", "rules", "reports", "probes", "runners", "html", "sarif"),
    (
        "settings",
        "baseline",
        "ledger",
        "verdicts",
        "targets",
        "measuring",
        "rule_findings",
        "call_options",
        "linear_layers",
    ),
    ("folding",),
    ("parting", "round_trip"),
    ("result_lines", "artifact_state"),
    ("auditing",),
    ("comparing", "triaging"),
    ("score_triage",),
    ("streaming",),
    (
        "output",
        "clean_stdout",
        "early_exit",
        "notebook",
        "exit_codes",
        "plain_arguments",
        "option_texts",
        "progress_bar",
    ),
    ("tracing",),
    ("reproduction",),
    ("policy",),
    ("proposal",),
    ("artifact_settings", "inspection", "report_files", "gating", "deployable", "pytest_plugin", "integrations"),
    ("cli", "commands", "merged_options", "run_flags", "report_flags", "score_flags", "policy_flags", "__main__"),
)
"""Lowest first. A file imports from its own level and from below, never from above."""
FRAMEWORKS = ("torch", "onnx", "onnxruntime", "safetensors", "torchvision", "sklearn", "lightning", "transformers")
RUN_MODELS = ("runners", "torch_session", "onnx_session", "feeds", "watching", "integrations")
"""Where frameworks are imported: nothing on the static path imports these packages' modules. `watching` stands around a
training loop and `integrations` in one, where the framework is there anyway."""
VAGUE = {"utils", "helpers", "common", "base", "manager", "misc", "util", "helper"}


def home(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def level(name: str) -> int:
    return next((height for height, names in enumerate(LEVELS) if name in names), -1)


def imports(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_run_one_way(path: Path) -> None:
    own = home(path)
    if own == "__init__":
        pytest.skip("the public names are loaded lazily from anywhere")
    assert level(own) >= 0, f"{own} has no level: put it into LEVELS"
    for name in imports(path):
        pieces = name.split(".")
        if pieces[0] != "bnaudit" or len(pieces) == 1:
            continue
        assert level(pieces[1]) <= level(own), f"{own} imports {name}, which stands above it"


@pytest.mark.parametrize(
    "folder", ["formats", "rules", "reports", "probes", "runners", "commands", "triage_families", "triage/hypotheses"]
)
def test_a_plugin_never_imports_another_plugin(folder: str) -> None:
    package = f"bnaudit.{folder}"
    for path in sorted((PACKAGE / folder).glob("*.py")):
        others = [name for name in imports(path) if name.startswith(package + ".")]
        assert not others, f"{path.name} imports {others}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_framework_and_no_shell(path: Path) -> None:
    roots = {name.split(".")[0] for name in imports(path)}
    forbidden = () if home(path) in RUN_MODELS else FRAMEWORKS
    assert not roots & {*forbidden, "pickle", "zipfile", "subprocess", "cloudpickle", "dill"}


def test_no_file_has_a_vague_name() -> None:
    assert not {path.stem for path in FILES} & VAGUE


def test_nothing_is_evaluated_or_executed() -> None:
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec", "compile", "__import__"), path


def test_importing_bnaudit_loads_nothing_else() -> None:
    code = "import sys, bnaudit; print(sorted(m for m in sys.modules if m.split('.')[0] in ('numpy', 'rich', 'typer')))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"


def test_public_names_are_what_all_says() -> None:
    assert sorted(bnaudit.__all__) == sorted({*bnaudit._HOMES, "__version__"})
    for name in bnaudit.__all__:
        assert getattr(bnaudit, name) is not None
    assert callable(bnaudit.audit), "a submodule must not hide the function of the same name"
