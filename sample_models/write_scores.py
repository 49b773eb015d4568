"""What a server returned for the digits, healthy or not: samples of observed scores for triage.

`python -m sample_models.write_scores` writes them from the committed network and digits.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import torch
from torch import nn

from sample_models.digits import DigitNet
from sample_models.training import FOLDER, SEED

SCORED = 48
"""Of the held-out digits, the first so many."""
REQUESTS = 40
POOL = 24
"""Digits that the requests choose from, so that many are sent more than once."""
SIZES = (1, 2, 4, 8)


def write() -> None:
    """All three files."""
    folder = FOLDER / "scores"
    folder.mkdir(exist_ok=True)
    with np.load(FOLDER / "digits.npz") as held:
        digits = torch.from_numpy(held["inputs"])
    np.savez_compressed(folder / "eval.npz", logits=_scores(_served(), digits[:SCORED]))
    one_layer_in_training(folder / "one_layer_in_training.csv", digits)
    requests(folder / "requests.csv", digits)


def one_layer_in_training(path: Path, digits: torch.Tensor) -> None:
    """`layer1.0.bn2` was left in training mode, and every digit was sent by itself; three decimals."""
    net = _served()
    net.get_submodule("layer1.0.bn2").train()
    rows = [[i, *_written(_scores(net, digits[i : i + 1])[0])] for i in range(SCORED)]
    _write_rows(path, ["input"], rows)


def requests(path: Path, digits: torch.Tensor) -> None:
    """`eval()` was forgotten for the norms: what a digit scores depends on what it was sent with."""
    net = _served()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.train()
    generator = np.random.default_rng(SEED)
    rows = []
    for request in range(REQUESTS):
        sent = generator.choice(POOL, int(generator.choice(SIZES)), replace=False).tolist()
        scores = _scores(net, digits[sent])
        rows += [[request, row, len(sent), *_written(each)] for row, each in zip(sent, scores, strict=True)]
    _write_rows(path, ["request", "input", "batch_size"], rows)


def _served() -> DigitNet:
    net = DigitNet()
    net.load_state_dict(torch.load(FOLDER / "healthy" / "state_dict.pt", weights_only=True))
    return net.eval()


def _scores(net: nn.Module, inputs: torch.Tensor) -> np.ndarray:
    with torch.no_grad():
        scores: np.ndarray = net(inputs).numpy()
    return scores


def _written(scores: np.ndarray) -> list[str]:
    return [f"{value:.3f}" for value in scores]


def _write_rows(path: Path, names: list[str], rows: list[list[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*names, *(f"logit_{i}" for i in range(10))])
        writer.writerows(rows)


if __name__ == "__main__":
    write()
