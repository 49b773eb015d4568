"""What the README says of training runs, in real trainers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from test_readme import README, ROOT, section

for library in ("lightning", "transformers", "accelerate"):
    pytest.importorskip(library, reason=f"{library} is not installed")

SURROUNDINGS = """
import logging
import lightning.pytorch
import torch
import transformers
from torch import nn

import bnaudit


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))

    def forward(self, features, labels):
        logits = self.net(features)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class Module(lightning.pytorch.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = Classifier()

    def training_step(self, batch, index):
        return self.net(*batch)["loss"]

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


model, module, hf_model = Classifier().net, Module(), Classifier()
data = torch.utils.data.TensorDataset(torch.randn(16, 6), torch.randint(2, (16,)))
rows = [{"features": features, "labels": label} for features, label in data]
loader = torch.utils.data.DataLoader(data, batch_size=8)
criterion, optimizer = nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), 0.1)
arguments = transformers.TrainingArguments("runs", max_steps=2, use_cpu=True, report_to=[])
"""


def test_the_training_of_the_readme_runs(tmp_path: Path) -> None:
    code = section(README.read_text(encoding="utf-8"), "training").replace("```python", "").replace("```", "")
    run = [sys.executable, "-c", f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n{SURROUNDINGS}\n{code}"]
    done = subprocess.run(run, capture_output=True, text=True, encoding="utf-8", cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert "bnaudit" not in done.stderr
    assert list(tmp_path.rglob("*.ckpt"))
    assert (tmp_path / "runs" / "checkpoint-2" / "model.safetensors").exists()
