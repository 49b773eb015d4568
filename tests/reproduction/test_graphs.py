"""ONNX graphs: the script runs onnxruntime alone, on the graph where it is."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bnaudit.reproduction.checking import Ran
from bnaudit.reproduction.demonstration import Kind
from bnaudit.reproduction.reproducing import reproduce
from bnaudit.run_options import RunOptions
from bnaudit.settings import Settings

SAMPLES = Path(__file__).parent.parent.parent / "sample_models"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("exported_in_training_mode.onnx", Kind.NEIGHBOURS), ("noisy_input.onnx", Kind.RANDOM)],
)
def test_a_graph_is_shown_and_its_mended_form_passes(
    name: str, kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bnaudit.reproduction.reproducing.ran", lambda script: Ran(1, "it was not run"))
    graph = tmp_path / "model.onnx"
    shutil.copyfile(SAMPLES / "defects" / name, graph)
    images = np.load(SAMPLES / "digits.npz")["inputs"][:20]
    np.savez(tmp_path / "x.npz", input=images)
    result = reproduce(graph, tmp_path / "repro", Settings(run=RunOptions(inputs=str(tmp_path / "x.npz"))))
    assert result.found is not None and result.found.kind is kind
    script = tmp_path / "repro" / "repro.py"
    assert "import torch" not in script.read_text()
    defect = subprocess.run([sys.executable, "-I", str(script)], capture_output=True, text=True, check=False)
    assert defect.returncode == 1, defect.stderr
    shutil.copyfile(SAMPLES / "healthy" / "norms_kept.onnx", graph)
    mended = subprocess.run([sys.executable, "-I", str(script)], capture_output=True, text=True, check=False)
    assert mended.returncode == 0, mended.stdout + mended.stderr
    assert "model.onnx has changed" in mended.stdout
