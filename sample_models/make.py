"""Rebuilds every sample from a seed: `python -m sample_models.make` in the project's root, about a minute.

Each writer starts from the same seed, so that one sample can be rebuilt alone (`… make defects/nan_variance.pt`).
"""

from __future__ import annotations

import logging
import sys
import warnings
from pathlib import Path

import numpy as np
import torch

from sample_models import (
    write_compare,
    write_controls,
    write_defects,
    write_healthy,
    write_running_controls,
    write_running_defects,
    write_scores,
)
from sample_models.catalogue import SAMPLES
from sample_models.digits import build
from sample_models.training import FOLDER, SEED, Digits, accuracy, load_digits, optimizer_of, train
from sample_models.write_healthy import Trained

STEPS = 440
WRITERS = {
    **write_healthy.WRITERS,
    **write_defects.WRITERS,
    **write_running_defects.WRITERS,
    **write_controls.WRITERS,
    **write_running_controls.WRITERS,
    **write_compare.WRITERS,
}


def main(names: list[str]) -> None:
    """Write the named samples, or all of them and the data."""
    if WRITERS.keys() != SAMPLES.keys():
        raise SystemExit(f"listed or written only: {sorted(WRITERS.keys() ^ SAMPLES.keys())}")
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    trained = train_once(load_digits())
    if not names:
        write_data(trained.digits)
    for name in names or WRITERS:
        path = FOLDER / name
        path.parent.mkdir(exist_ok=True)
        torch.manual_seed(SEED)
        WRITERS[name](trained, path)
        print(f"{size_of(path):9,} {name}")
    if not names:
        write_scores.write()


def train_once(digits: Digits) -> Trained:
    """The network of all healthy samples."""
    torch.manual_seed(SEED)
    net = build()
    optimizer = optimizer_of(net)
    train(net, digits, STEPS, optimizer)
    print(f"{accuracy(net.eval(), digits):9.1%} of the held-out digits right")
    return Trained(digits, net, optimizer, STEPS)


def write_data(digits: Digits) -> None:
    """The held-out digits: `inputs` float32 (360, 1, 8, 8) and `labels` int64 (360,)."""
    path = FOLDER / "digits.npz"
    np.savez_compressed(path, inputs=digits.held_out_inputs.numpy(), labels=digits.held_out_labels.numpy())
    print(f"{size_of(path):9,} {path.name}")


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    files = path.iterdir() if path.is_dir() else (path,)
    return sum(file.stat().st_size for file in files)


if __name__ == "__main__":
    main(sys.argv[1:])
