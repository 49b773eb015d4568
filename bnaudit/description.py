"""What a file says: plain values that every format returns and every rule reads.

`None` always means that the artifact does not say. It never means no.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, cast

from bnaudit.records import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class NormKind(str, Enum):
    """What is normalized over. UNKNOWN: a norm layer whose kind the artifact does not settle."""

    BATCH = "batch"
    SYNC_BATCH = "sync-batch"
    FROZEN_BATCH = "frozen-batch"
    INSTANCE = "instance"
    GROUP = "group"
    LAYER = "layer"
    RMS = "rms"
    UNKNOWN = "unknown"

    @property
    def is_batch(self) -> bool:
        """Batch norm in any of its forms, frozen included."""
        return self in (NormKind.BATCH, NormKind.SYNC_BATCH, NormKind.FROZEN_BATCH)


class Evidence(str, Enum):
    """How we know that it is a norm layer, strongest first."""

    CLASS = "class"
    """the class name or attributes of a pickled or scripted module"""
    OPERATOR = "operator"
    """a node or call in a graph or in TorchScript code"""
    STATISTICS = "statistics"
    """running_mean, running_var or num_batches_tracked stored under the layer's name"""
    METADATA = "metadata"
    """`_metadata` of the state dict: version exactly 2 with a 1-D weight"""
    AFFINE = "affine"
    """only a 1-D weight (and bias), with a name like a norm layer's: little is known"""


class Carrier(str, Enum):
    """What kind of thing holds the layers; it decides which questions a file can answer."""

    STATE_DICT = "state dict"
    MODULE = "pickled module"
    SCRIPT = "TorchScript"
    PROGRAM = "exported program"
    GRAPH = "ONNX graph"

    @property
    def has_code(self) -> bool:
        """Whether the artifact itself says what is computed."""
        return self in (Carrier.SCRIPT, Carrier.PROGRAM, Carrier.GRAPH)


class Cumulative(Enum):
    """PyTorch's `momentum=None`: the running statistics are the plain average over all batches."""

    CUMULATIVE = "cumulative"


CUMULATIVE = Cumulative.CUMULATIVE


class StoredTensor(Record, eq=False):
    """One tensor of a norm layer as the artifact stores it."""

    name: str
    """The name in the artifact, prefixes and all (`module.layer1.0.bn1.running_mean`)."""
    dtype: str
    """float32, float16, bfloat16, float64, int64, … as stored."""
    shape: tuple[int, ...]
    values: NDArray[np.float64] | NDArray[np.int64] | None
    """Exact values, read-only, in `shape`: float64 for floating dtypes, int64 for integer ones. None: see `absence`."""
    absence: str = ""
    """Why there are no values: named without them (meta device, offloaded) or not readable."""
    unread: bool = False
    """True when values exist and could not be read (a Gap says why); False when there are none."""
    requires_grad: bool | None = None

    @property
    def is_floating(self) -> bool:
        """Whether the stored dtype is a floating one."""
        return "float" in self.dtype


class NormLayer(Record, eq=False):
    """One normalization layer."""

    name: str
    """Dotted path as stored (`module.layer1.0.bn1`); the node or output name in a graph; "" for the root."""
    kind: NormKind
    evidence: Evidence
    class_name: str | None = None
    """Qualified class or operator (`torch.nn.modules.batchnorm.BatchNorm2d`, `BatchNormalization`)."""
    metadata_version: int | None = None
    """`_metadata[name]["version"]` of the state dict."""
    declared_channels: int | None = None
    """From num_features or the graph's channel axis, not from the layer's own tensors."""
    eps: float | None = None
    momentum: float | Cumulative | None = None
    """Weight of the new batch (PyTorch's convention, whatever the format writes)."""
    affine: bool | None = None
    tracks_statistics: bool | None = None
    training: bool | None = None
    """The stored training flag of the module."""
    graph_training: bool | None = None
    """What the graph or the code itself fixes: True, it normalizes with the batch and will whatever eval() says."""
    statistics_from_input: bool | None = None
    """The graph computes mean and variance from the values of its input."""
    spelled_out: bool = False
    """Not one operator: written with reductions and arithmetic."""
    weight: StoredTensor | None = None
    bias: StoredTensor | None = None
    running_mean: StoredTensor | None = None
    running_var: StoredTensor | None = None
    num_batches_tracked: StoredTensor | None = None
    hooked: bool | None = None
    """Whether forward hooks or pre-hooks were pickled with the module."""
    block_requires_grad: bool | None = None
    """Of a norm without weight and bias: whether any parameter of the module that directly holds it trains.

    False: it has parameters and none of them does. None: it has none, the artifact does not say, or the norm has
    parameters of its own.
    """

    @property
    def tensors(self) -> tuple[StoredTensor, ...]:
        """The tensors that are named, in the order weight, bias, mean, variance, counter."""
        five = (self.weight, self.bias, self.running_mean, self.running_var, self.num_batches_tracked)
        return tuple(tensor for tensor in five if tensor is not None)

    @property
    def channels(self) -> int | None:
        """The declared number of channels, else the length of the first 1-D tensor."""
        if self.declared_channels is not None:
            return self.declared_channels
        return next((t.shape[0] for t in self.tensors if len(t.shape) == 1), None)

    @property
    def mean(self) -> NDArray[np.float64] | None:
        """Running mean, float64 (channels,), or None without values."""
        return _floating(self.running_mean)

    @property
    def var(self) -> NDArray[np.float64] | None:
        """Running variance, float64 (channels,), or None without values."""
        return _floating(self.running_var)

    @property
    def gamma(self) -> NDArray[np.float64] | None:
        """Weight, float64 (channels,), or None without values."""
        return _floating(self.weight)

    @property
    def beta(self) -> NDArray[np.float64] | None:
        """Bias, float64 (channels,), or None without values."""
        return _floating(self.bias)

    @property
    def counter(self) -> float | None:
        """num_batches_tracked as stored (a float when it was cast: may be fractional, NaN or inf), else None."""
        stored = self.num_batches_tracked
        if stored is None or stored.values is None or stored.values.size != 1:
            return None
        return float(stored.values.reshape(-1)[0])

    @property
    def requires_grad(self) -> bool | None:
        """True if the weight or the bias trains, False if all that are there are frozen, None if unknown."""
        flags = [t.requires_grad for t in (self.weight, self.bias) if t is not None]
        if not flags or (None in flags and True not in flags):
            return None
        return any(flags)


class ModeDependent(Record):
    """A layer other than a norm whose output depends on the mode."""

    name: str
    kind: str
    """dropout, recurrent, attention, rrelu or stochastic-depth"""
    class_name: str
    probability: float | None = None
    training: bool | None = None
    graph_training: bool | None = None
    """What the graph or the code itself fixes, as in NormLayer."""


class HiddenModule(Record):
    """A module that eval(), state_dict() and to() do not reach (BN207)."""

    path: str
    """Where it is, as Python would write it: `encoder.norms[2]`."""
    class_name: str
    training: bool | None
    mode_dependent: tuple[str, ...]
    """Paths of the mode-dependent layers in it that are in training mode or unknown; empty: none."""
    in_training: bool
    """True when a mode-dependent layer in it is in training mode."""


class GraphInput(Record):
    """An input that the artifact declares."""

    name: str
    dtype: str
    shape: tuple[int | str | None, ...] | None
    """Sizes; a str is a named free dimension, None an unnamed one; None instead of a tuple: rank unknown."""


class Part(Record, eq=False):
    """One model in an artifact: most files have one, a checkpoint may hold raw and averaged weights."""

    name: str
    """The path of the part in the file (`state_dict_ema`, `model`), "" when the file is the part."""
    carrier: Carrier
    layers: tuple[NormLayer, ...] = ()
    """In execution order where the artifact has one, else in file order."""
    mode_dependent: tuple[ModeDependent, ...] = ()
    hidden: tuple[HiddenModule, ...] = ()
    wrappers: tuple[str, ...] = ()
    """DataParallel, DistributedDataParallel, OptimizedModule, AveragedModel around the model, outermost first."""
    averaged_over: int | None = None
    """`n_averaged` of torch.optim.swa_utils.AveragedModel."""
    has_metadata: bool | None = None
    """Whether a state dict still has its `_metadata`."""
    tensors: int = 0
    """All tensors of the part, read or not."""
    floating_dtypes: tuple[str, ...] = ()
    """The floating dtypes of all tensors of the part, sorted."""
    trainable: int | None = None
    """Parameters outside norm layers that require gradients; None: the artifact does not say."""
    frozen: int | None = None
    """Parameters outside norm layers that do not; None: the artifact does not say."""
    buffers_to_mutate: tuple[str, ...] = ()
    """Buffers that running an exported program writes."""
    inputs: tuple[GraphInput, ...] = ()
    operators: int | None = None
    """Nodes or calls looked at; None: the artifact holds no graph or code."""
    traced: bool | None = None
    """TorchScript: recorded by tracing, so that flags are constants of the code."""
    modules: tuple[str, ...] | None = None
    """Dotted paths of all modules, norm layers included; None: the artifact does not list them."""
    folded: str = ""
    """The evidence that norm layers were folded into convolutions; empty: none."""


class Gap(Record):
    """A part of the file that could not be read, or was not opened because that would run code."""

    where: str
    why: str
    hides_norms: bool = True
    """Whether norm layers may be behind it."""


class PickleImport(Record):
    """A global that a pickle names or an attribute that it fetches, and what unpickling would do with it (BN901)."""

    name: str
    """Full dotted name, `posix.system`; for an attribute that of its owner or the owner's class, then its own."""
    called: bool
    """Whether unpickling would call it (REDUCE, NEWOBJ, INST, OBJ)."""
    arguments: tuple[str, ...] = ()
    """A short rendering of the first call's arguments; globals and calls are written with their names."""
    foreign_target: bool = False
    """An attribute of something that is not built in this pickle (a global, what was fetched from one, or reached
    through a name like `__class__`); for getattr, setattr and delattr: some call asks for such a one."""
    modified: bool = False
    """Whether unpickling would change it, though it is not built there: BUILD, SETITEM(S), APPEND(S), ADDITEMS."""
    fetched: bool = False
    """Not imported by name: unpickling would get it with getattr. `?` ends the name when the pickle computes it."""
    handed_on: bool = False
    """Whether it is an argument of a call, or stands in the state of an object that is a tuple (functools.partial)."""


class Artifact(Record):
    """Which file this is."""

    path: str
    format: str
    """The name of the format that read it, for a person (`PyTorch zip checkpoint`)."""
    size: int
    """Bytes; for a sharded model or a directory, of all its files."""
    bytes_read: int
    producer: str | None = None
    """Name and version of what wrote the file, where the file records one (`pytorch 2.3.0`)."""


class Description(Record, eq=False):
    """Everything a format found in one artifact."""

    artifact: Artifact
    parts: tuple[Part, ...] = ()
    gaps: tuple[Gap, ...] = ()
    imports: tuple[PickleImport, ...] = ()
    has_optimizer: bool | None = None
    """Optimizer state beside the model: a training checkpoint. None: the format has no place for one."""
    steps: int | None = None
    """Optimizer steps that the checkpoint records."""
    steps_name: str = ""
    """Where (`global_step`)."""
    remarks: tuple[str, ...] = ()
    """What else a person should know (`both safetensors and .bin are here: each is audited`)."""

    @property
    def layers(self) -> Iterator[tuple[Part, NormLayer]]:
        """Every norm layer with its part."""
        return ((part, layer) for part in self.parts for layer in part.layers)


def _floating(stored: StoredTensor | None) -> NDArray[np.float64] | None:
    if stored is None or stored.values is None or stored.values.dtype.kind != "f":
        return None
    return cast("NDArray[np.float64]", stored.values)
