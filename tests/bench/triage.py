"""Cost of `bnaudit triage`: ten hypotheses about a whole model, against plain forwards, in one run.

    make bench     after the measured audit's

One plain forward is the baseline: ResNet-50's shape, 224 px, a batch of 4, eval mode, no_grad. The ten are eval as
saved, norm layers in training mode together and each input alone, two epsilons, both half precisions, lost buffers,
and gamma and beta ignored; production's scores are those of another epsilon. Candidate and baseline are run in turns.
A limit that does not hold is marked and makes the exit code 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import numpy as np
import torch
from measured import in_turns, plain
from nets import ResNet50, moved
from static import Table
from torch import nn

from bnaudit.description import Part
from bnaudit.diagnosis import Conclusion, Diagnosis, Observed
from bnaudit.run_options import RunOptions
from bnaudit.session import Batch, Session, Watch
from bnaudit.torch_session.opening import opened
from bnaudit.triage import search
from bnaudit.triaging import triage
from bnaudit.variation import Altered, Variation

ONLY = ("training-mode", "epsilon", "half-precision", "lost-buffers", "ignored-affine")
HYPOTHESES = 10
LIMIT = 14.0
EPSILON = 1e-3


def affine_resnet50() -> tuple[nn.Module, torch.Tensor]:
    """A ResNet-50 with statistics and affines that are none of the first ones, and a batch of 4 at 224 px."""
    torch.manual_seed(0)
    net, batch = ResNet50(), torch.randn(4, 3, 224, 224)
    for norm in _norms(net):
        nn.init.uniform_(norm.weight, 0.5, 1.5)
        nn.init.normal_(norm.bias, 0.0, 0.1)
    return moved(net, batch, 1), batch


def observed(net: nn.Module, batch: torch.Tensor) -> Observed:
    """What production returned, with another epsilon."""
    own = [norm.eps for norm in _norms(net)]
    for norm in _norms(net):
        norm.eps = EPSILON
    with torch.no_grad():
        values = net(batch).double().numpy()
    for norm, eps in zip(_norms(net), own, strict=True):
        norm.eps = eps
    return Observed(values=values, kind=None, rows=np.arange(len(batch)))


def _norms(net: nn.Module) -> list[nn.BatchNorm2d]:
    return [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]


def diagnosed(net: nn.Module, batch: torch.Tensor, scores: Observed) -> Diagnosis:
    """The whole triage of the ten."""
    return triage(None, scores, RunOptions(model=net, inputs=batch.numpy()), only=ONLY)


def whole(table: Table, rounds: int) -> None:
    net, batch = affine_resnet50()
    scores = observed(net, batch)
    search._QUICK = 0.0  # a fast machine would try single layers as rivals, too
    found = diagnosed(net, batch, scores)
    assert found.conclusion is Conclusion.EXPLAINED, found.reason
    assert len(found.tried) == HYPOTHESES, [tried.hypothesis.key for tried in found.tried]
    taken = in_turns(rounds, plain=lambda: plain(net, batch), ours=lambda: diagnosed(net, batch, scores))
    table.line(f"resnet50: triage of {HYPOTHESES} / one forward", taken["ours"], taken["plain"], LIMIT, "s")
    print(f"    {found.forwards} forwards; {found.explanations[0].hypothesis.claim}")


def single(table: Table, rounds: int) -> None:
    """Entering a variation, one forward in it, leaving it."""
    net, images = affine_resnet50()
    batch = Batch(args=(images.numpy(),), size=len(images), anchors=(0,))
    with opened(None, None, RunOptions(model=net)) as session:
        for name, variation, limit in _variations(session.part):
            taken = in_turns(rounds, plain=lambda: plain(net, images), ours=_changed(session, variation, batch))
            table.line(f"resnet50: {name} / plain forward", taken["ours"], taken["plain"], limit, "s")


def _changed(session: Session, variation: Variation, batch: Batch) -> Callable[[], None]:
    def run() -> None:
        with session.varied(variation) as varied:
            varied.run(batch, watch=Watch.NOTHING)

    return run


def _variations(part: Part) -> list[tuple[str, Variation, float]]:
    names = [layer.name for layer in part.layers]
    trains, other = Altered(training=True), Altered(eps=EPSILON)
    return [
        ("another epsilon", Variation(layers=dict.fromkeys(names, other)), 1.3),
        ("norms in training mode", Variation(layers=dict.fromkeys(names, trains)), 1.7),
        ("float16", Variation(dtype="float16"), 2.5),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rounds")
    options = parser.parse_args()
    table = Table()
    rounds = 3 if options.quick else 7
    whole(table, rounds)
    single(table, rounds)
    return 1 if table.broken else 0


if __name__ == "__main__":
    sys.exit(main())
