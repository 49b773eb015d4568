"""Cost of `bnaudit.watch`: ratio of medians of a watched training step against a plain one, in turns, in one run.

    make bench     after the measured audit's

A training step is forward, cross-entropy, backward and SGD with momentum, at batch 8 on a ResNet-50 shape (112 px: what
two cores can do). A limit that does not hold is marked and makes the exit code 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import torch
from measured import in_turns
from nets import ResNet50
from static import Table
from torch import nn

import bnaudit
from bnaudit.watching.layers import layout_of
from bnaudit.watching.statistics import changes, taken

STEPS = 4
"""In each turn, so that entering and leaving the watch, which a training pays once, count a little and not fully."""


def training(net: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> Callable[[], None]:
    """A few steps of an ordinary loop."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

    def steps() -> None:
        for _ in range(STEPS):
            loss = nn.functional.cross_entropy(net(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return steps


def watched(net: nn.Module, steps: Callable[[], None]) -> Callable[[], None]:
    """The same steps under a watch."""

    def guarded() -> None:
        with bnaudit.watch(net) as guard:
            steps()
        assert guard.forwards == STEPS
        assert not guard.violations

    return guarded


def own_seconds(net: nn.Module, rounds: int) -> float:
    """What the watch does around one forward, without the forward: median seconds."""
    layers = layout_of(net).layers

    def looked() -> None:
        before = taken(layers)
        changes(before, taken(layers))

    return in_turns(rounds, looked=looked)["looked"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rounds")
    options = parser.parse_args()
    torch.manual_seed(0)
    net = ResNet50().train()
    steps = training(net, torch.randn(8, 3, 112, 112), torch.randint(1000, (8,)))
    table = Table()
    turns = in_turns(5 if options.quick else 21, plain=steps, ours=watched(net, steps))
    plain = turns["plain"] / STEPS
    table.line("resnet50: watched / plain training step", turns["ours"] / STEPS, plain, 1.02, "s")
    own = own_seconds(net, 50)
    share = own / plain
    print(f"    {own * 1e3:.1f} ms around a forward, {share:.2%} of the step (limit 2 %)")
    table.broken += share > 0.02
    return 1 if table.broken else 0


if __name__ == "__main__":
    sys.exit(main())
