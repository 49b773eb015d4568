"""The values of the fault matrix: architectures, carriers, faults, and what one cell of the matrix gave.

    architecture × fault × carrier -> Planting -> file or live module -> audit -> Outcome

A fault damages a healthy, trained net (or the state dict, or the graph, that is written of it) and says beside that
what an audit must say. What it says is written by hand, from the catalogue of rules, never from an audit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from bnaudit.results import Question, Severity

Inputs = tuple[torch.Tensor, ...]


class Facet(str, Enum):
    """Something of a model that a carrier keeps or loses."""

    STATISTICS = "statistics"
    """The values of mean, variance, gamma and beta of every norm."""
    COUNTERS = "counters"
    STATE = "state"
    """It is a dict of tensors: any entry can be missing, or be cast."""
    VERSIONS = "versions"
    """The class versions of a state dict (`_metadata`)."""
    BESIDE = "beside"
    """Other entries beside the state dict: steps, an optimizer, an average."""
    EPSILON = "epsilon"
    MOMENTUM = "momentum"
    FLAGS = "flags"
    """The training flags of modules."""
    CLASSES = "classes"
    """Module objects with their attributes, `requires_grad` among them."""
    FORWARD = "forward"
    """What forward() does: code or a graph."""
    FIXED = "fixed"
    """The mode in which it was written is written into the code or graph."""
    GRAPH = "graph"
    """It is an ONNX graph, which can be edited."""
    RUNS = "runs"
    """It can be run without the user's own source code beside it."""
    OBSERVED = "observed"
    """When it runs, what every module does is seen, with the module's name."""
    NAMES = "names"
    """Norm layers have the names that they have in the module."""


class Scope(str, Enum):
    """How much of the net a fault hits."""

    ALL = "all layers"
    ONE = "one layer"
    CHANNEL = "one channel"
    """Of one layer."""
    NET = "the net"
    """Not a matter of layers."""


class Design(NamedTuple):
    """What an architecture does on purpose, and a measured audit must report unless it is declared."""

    rule: str
    layer: str | None
    """The module that the finding must name; None: a finding on the whole artifact, or without a sure place."""
    intended: tuple[tuple[str, str], ...]
    """The setting `intended` that declares it."""
    also: tuple[str, ...] = ()
    """Rules that may speak of the same cause beside or in place of `rule`."""


class Architecture(NamedTuple):
    """A healthy net, trained or initialised with a seed, and inputs of the distribution that it was trained on."""

    name: str
    build: Callable[[], nn.Module]
    """Makes and trains it from a seed: the same each time; in eval mode."""
    inputs: Callable[[], Inputs]
    """64 samples, the batch first in every tensor."""
    designs: tuple[Design, ...] = ()
    left_out: Mapping[str, str] = MappingProxyType({})
    """Carrier → why it cannot hold this net (`scripted` → "torch.jit.script refuses a generator")."""
    loss: Callable[[nn.Module, Inputs], torch.Tensor] | None = None
    """How it is trained, for faults that train a little further; None: the mean square of its outputs."""
    is_control: bool = False
    """No fault is planted in it: a net that nobody has trained has other defects than one in use."""
    given: Callable[[Inputs], Any] | None = None
    """Makes of the samples what an audit is given, such as a loader that pads them; None: the tensors themselves."""


@dataclass
class Planting:
    """A healthy net of its own to be damaged, and what has to be done to it when it is written."""

    net: nn.Module
    """In eval mode."""
    inputs: Inputs
    carrier: Carrier
    scope: Scope
    layers: tuple[str, ...]
    """What to damage: chosen by the fault's scope among its targets, with the cell's seed."""
    rng: np.random.Generator
    state_edits: list[Callable[[dict[str, Any]], object]] = field(default_factory=list)
    """Change the state dict in place before it is written (carriers with `Facet.STATE`)."""
    graph_edits: list[Callable[[Any], object]] = field(default_factory=list)
    """Change the onnx.ModelProto in place before it is written (carriers with `Facet.GRAPH`)."""
    beside: dict[str, Any] = field(default_factory=dict)
    """More entries of the checkpoint (`Facet.BESIDE`)."""
    in_training_mode: bool = False
    """It is written, traced or exported in training mode."""
    keeps_modes: bool = False
    """The older ONNX exporter leaves every module in the mode that it is in; else it calls eval()."""
    options: dict[str, Any] = field(default_factory=dict)
    """More RunOptions of the audit."""
    located: tuple[str, ...] | None = None
    """At which modules the findings must stand, where these are not `layers`."""
    also_at: tuple[str, ...] = ()
    """Modules that the rule may name, too, with another severity: the fault's option holds for them as well."""

    @property
    def modules(self) -> list[Any]:
        """The modules to damage."""
        return [self.net.get_submodule(name) for name in self.layers]

    def channels(self, norm: Any) -> Any:
        """What of a norm's channels to damage: an index for `Scope.CHANNEL`, else all."""
        return int(self.rng.integers(norm.num_features)) if self.scope is Scope.CHANNEL else slice(None)


class Carrier(NamedTuple):
    """A way to hand a model on."""

    name: str
    facets: frozenset[Facet]
    write: Callable[[Planting, Path], Any]
    """Writes the planted net into the folder and returns the file; the live carrier returns the module."""
    share: float = 1.0
    """Of the cells that it could take part in, how many are in the matrix: some exporters are slow."""

    def holds(self, *facets: Facet) -> bool:
        """Whether it keeps all of these."""
        return self.facets.issuperset(facets)


def tracked(net: nn.Module) -> list[str]:
    """Names of the batch norms that keep statistics."""
    norms = [(name, module) for name, module in net.named_modules() if isinstance(module, _BatchNorm)]
    return [name for name, norm in norms if norm.running_mean is not None]


OF_IMAGES = (nn.BatchNorm2d, nn.SyncBatchNorm)
"""Norms that in this matrix receive (N, C, H, W); the others receive (N, C) or (N, C, L)."""


def with_trained_affines(net: nn.Module) -> list[str]:
    """Those of them that have a gamma and a beta, neither as it was initialised."""
    return [name for name in tracked(net) if _moved(net.get_submodule(name))]


def _moved(norm: Any) -> bool:
    return (
        norm.weight is not None and bool(norm.bias.detach().abs().max() > 0) and float(norm.weight.detach().std()) > 0
    )


class NoEffectError(ValueError):
    """Running the damaged net directly shows nothing of the fault, wherever it is planted."""


class Fault(NamedTuple):
    """One way to break a healthy net, and what an audit must say of it."""

    name: str
    """What is done, in a few words."""
    rule: str
    """The id of the rule that must find it."""
    plant: Callable[[Planting], None]
    severity: Severity | None
    """That the findings must have; None: just under the limit, and the rule must say nothing aloud of it."""
    question: Question | None = None
    """That must fail; where the carrier cannot show the fault, it must not pass. None: no verdict is about it."""
    scope: Scope = Scope.ONE
    targets: Callable[[nn.Module], list[str]] = tracked
    """The names of what can be damaged in a net; none: the fault cannot be planted there."""
    needs: frozenset[Facet] = frozenset()
    """What a carrier must keep to show it."""
    measured: bool = False
    """Only a run shows it: it is audited with inputs, else statically (a live module always with inputs)."""
    instead: tuple[str, ...] = ()
    """Rules that may find it in place of `rule`, the more specific ones in some carriers."""
    also: tuple[str, ...] = ()
    """Rules that may speak aloud, too: true consequences of the fault."""
    hidden_by: tuple[str, ...] = ()
    """Rules with the same symptom for another reason: a net that declares one of these does not show it."""
    gone: Mapping[str, str] = MappingProxyType({})
    """Carrier → why what it is written into is healthy (`ONNX` → "it has no counters")."""
    whole: bool = False
    """The finding is about the whole artifact, not about layers."""
    baseline: str = ""
    """Compared with the healthy net in this carrier (`same`: in the cell's own); "": audited by itself."""
    severity_in: Mapping[str, Severity] = MappingProxyType({})
    """Carrier → the severity that the findings must have there, where the catalogue gives it another one."""
    only: frozenset[str] = frozenset()
    """The carriers that it is written into, a fault of how one kind of file is made; empty: all."""
    leaves_open: bool = False
    """The question need not fail, but must not pass either."""
    unnoted: bool = False
    """Just under the limit of a rule that finds notes: the rule must not say even a note."""

    @property
    def id(self) -> str:
        """Unique, and says what it is."""
        return f"{self.rule} {self.name}, {self.scope.value}"


class Expectation(str, Enum):
    """What an audit of a cell has to give."""

    FOUND = "found"
    SILENT = "silent"
    """Healthy, or just under a limit."""
    UNSEEN = "unseen"
    """The carrier cannot show it: nothing aloud, and the question not passed."""
    GONE = "gone"
    """The carrier cannot hold it, so that what was written is healthy: nothing aloud."""
    NOWHERE = "nowhere"
    """It has no effect in this net, wherever it is planted: no cell of the matrix."""


class Cell(NamedTuple):
    """One entry of the matrix; small enough to be sent to another process."""

    architecture: str
    fault: str
    """Its id; "": the healthy net."""
    carrier: str
    intended: bool = False
    """What is by design is declared."""


class Outcome(NamedTuple):
    """What one cell gave."""

    cell: Cell
    expected: Expectation
    rule: str
    """Of the fault; "": healthy."""
    right: bool
    """It is what it has to be."""
    found: bool = False
    """By the rule, or by one that may take its place."""
    located: bool | None = None
    """At the right layers and no others; None: the carrier has no names, or nothing was found."""
    false_alarms: tuple[str, ...] = ()
    """`BN106 warning at layer1.0.bn1: message`."""
    verdict: str = ""
    """How the question was decided."""
    layers: int = 0
    """Norm layers that were looked at and are healthy."""
    seconds: float = 0.0
    """Of the audit alone."""
    why: str = ""
    """What is not right."""


class Drawn(NamedTuple):
    """How often a statistic at a stated multiple of its limit was judged rightly in seeded draws."""

    name: str
    """`mean shift of half the limit, one layer, MLP`."""
    rule: str
    expected: Expectation
    """`FOUND` or `SILENT`."""
    draws: int
    right: int

    @property
    def missed(self) -> int:
        """Draws that were judged wrongly."""
        return self.draws - self.right
