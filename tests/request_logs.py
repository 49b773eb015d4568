"""Request logs of a small network that is served wrongly: every cause simulated with PyTorch itself."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from bnaudit.diagnosis import Observed, ScoreKind
from bnaudit.observed import RequestLog
from sample_models.digits import DigitNet

SAMPLES = Path(__file__).parent.parent / "sample_models"
MIXED = (1, 2, 4, 8, 16)


@cache
def images() -> torch.Tensor:
    with np.load(SAMPLES / "digits.npz") as held:
        return torch.tensor(held[held.files[0]]).float()


def served() -> DigitNet:
    """The healthy sample in eval, a copy of one's own."""
    return copy.deepcopy(_healthy())


@cache
def _healthy() -> DigitNet:
    net = DigitNet()
    net.load_state_dict(torch.load(SAMPLES / "healthy" / "state_dict.pt", weights_only=True))
    return net.eval()


def train_norms(net: nn.Module) -> None:
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.train()


class Requests:
    """What a server answered: one row for each input of each request."""

    def __init__(
        self, cause: str, count: int = 60, pool: int = 25, sizes: tuple[int, ...] = MIXED, seed: int = 0
    ) -> None:
        generator = np.random.default_rng(seed)
        torch.manual_seed(seed)
        net, self.requests, self.inputs, self.sizes = served(), [], [], []
        answers = []
        if cause == "companions":
            train_norms(net)
        if cause == "randomness":
            net.dropout.train()
        for request in range(count):
            rows = generator.choice(pool, int(generator.choice(sizes)), replace=False)
            if cause == "strays" and generator.random() < 0.3:
                self._forward_in_training(net, generator.choice(100, 16))
            if cause == "update" and request == count // 2:
                for _ in range(5):
                    self._forward_in_training(net, generator.choice(100, 8))
            with torch.no_grad():
                answers.append(net(images()[rows]).numpy())
            self.requests += [request] * len(rows)
            self.inputs += rows.tolist()
            self.sizes += [len(rows)] * len(rows)
        self.logits: NDArray[np.float64] = np.concatenate(answers).astype(np.float64)

    def _forward_in_training(self, net: nn.Module, rows: NDArray[np.int64]) -> None:
        train_norms(net)
        with torch.no_grad():
            net(images()[rows])
        net.eval()

    def log(
        self,
        *,
        kind: ScoreKind = ScoreKind.LOGITS,
        decimals: int | None = None,
        requests: bool = True,
        sizes: bool = True,
        times: bool = True,
    ) -> RequestLog:
        """The log with as much in it as is wanted."""
        values: NDArray[np.generic] = self.logits
        if kind is ScoreKind.PROBABILITIES:
            values = torch.softmax(torch.tensor(self.logits), 1).numpy()
        if kind is ScoreKind.LABELS:
            values = self.logits.argmax(1)
        if decimals is not None:
            values = np.round(values, decimals)
        observed = Observed(
            values=values,
            kind=kind,
            rows=np.array(self.inputs),
            requests=np.array(self.requests) if requests else None,
            step=None if decimals is None else 10.0**-decimals,
        )
        return RequestLog(
            observed=observed,
            keys=tuple(map(str, self.inputs)),
            batch_sizes=np.array(self.sizes) if sizes else None,
            times=np.array(self.requests, float) if times else None,
        )
