"""Cost of `bnaudit.watch`: ratio of medians of a watched training step against a plain one, in turns, in one run.

    make bench     after the measured audit's

A training step is forward, cross-entropy, backward and SGD with momentum, on the shape and the batch of the measured
audit's benchmark: ResNet-50, 224 px, batch 4. Whole steps vary by 2 % from run to run, as much as is allowed. What the
watch adds depends on the layers and not on the inputs, so it is measured on small ones (64 px), and that is
held to 2 % of the large step. A limit that does not hold is marked and makes the exit code 1.
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

STEPS = 4
"""In each turn, so that entering and leaving the watch, which a training pays once, count a little and not fully."""


def training(net: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> Callable[[], None]:
    """A few steps of an ordinary loop."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9)

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


def added_seconds(rounds: int) -> float:
    """What the watch adds to a step: difference of medians, with its hooks and a share of entering and leaving."""
    net = ResNet50().train()
    steps = training(net, torch.randn(4, 3, 64, 64), torch.randint(1000, (4,)))
    turns = in_turns(rounds, plain=steps, ours=watched(net, steps))
    return (turns["ours"] - turns["plain"]) / STEPS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rounds")
    options = parser.parse_args()
    torch.manual_seed(0)
    net = ResNet50().train()
    steps = training(net, torch.randn(4, 3, 224, 224), torch.randint(1000, (4,)))
    table = Table()
    turns = in_turns(6 if options.quick else 28, plain=steps, ours=watched(net, steps))
    plain = turns["plain"] / STEPS
    table.line("resnet50: watched / plain training step", turns["ours"] / STEPS, plain, 1.02, "s")
    added = added_seconds(12 if options.quick else 40)
    share = added / plain
    print(f"    {added * 1e3:.1f} ms added to a step, {share:.2%} of it (limit 2 %)")
    table.broken += share > 0.02
    return 1 if table.broken else 0


if __name__ == "__main__":
    sys.exit(main())
