"""What a run shows: the values that cross between a live model and the probes, and the session that makes them.

A Session is a model that can be run; only the runners know of frameworks. What goes in and what comes out are NumPy
arrays and plain values, never live tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from bnaudit.description import Carrier, GraphInput, NormKind, Part
from bnaudit.errors import BnauditError
from bnaudit.records import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from bnaudit.measurement import Loaded
    from bnaudit.variation import Variation


class RunError(BnauditError):
    """The model raised while it ran: the sentence names its error, and where it was raised."""


class NotPossibleError(BnauditError):
    """The runner cannot do this with this model; the sentence says why."""


class Mode(str, Enum):
    """In which mode the model runs."""

    INFERENCE = "inference"
    """a module after eval(); a graph as it is"""
    TRAINING_NORMS = "training norms"
    """after train() as the user wrote it, everything but the norm layers put back to eval; a graph whose norms got
    their training form in a copy"""
    AS_SAVED = "as saved"
    """with the training flags that the artifact or the live module came with"""


class Watch(str, Enum):
    """How closely a forward is looked at; each includes the one before, but for NOTHING."""

    NOTHING = "nothing"
    """without instruments and with the framework's own optimizations, as production would run it: outputs only"""
    CALLS = "calls"
    """normalization and random operators are recorded; state is compared afterwards"""
    MOMENTS = "moments"
    """and the moments of every sample at every normalization operator"""
    ROWS = "rows"
    """and, at every operator, fingerprints of the anchors' rows going in and coming out"""


class Batch(Record, eq=False):
    """The inputs of one forward: trees (tuple, list, dict) of arrays, as the model's call takes them."""

    args: tuple[object, ...]
    """Positional inputs; for a graph in the order of its inputs. Leaves that are no arrays are passed on."""
    kwargs: Mapping[str, object] = MappingProxyType({})
    size: int
    """Samples."""
    anchors: tuple[int, ...]
    """Rows of the anchors, ascending."""
    axis: int = 0
    """The batch axis of the inputs."""


class Output(Record, eq=False):
    """One array that the model returned; trees are flattened in order."""

    name: str
    """Where it stands: `[0]`, `['logits']`; the graph's name of it; "" for a model that returns one tensor."""
    values: NDArray[np.generic]
    """Exact values; bfloat16 and other types that NumPy lacks are widened to float32."""
    dtype: str
    """As the model returned it (`bfloat16`)."""


MADE_IN_FORWARD = "<made in forward of "
"""How Place.module begins for a module that nothing holds."""


class Place(Record):
    """Where in the model an operator ran."""

    module: str = ""
    """Dotted path of the innermost module (`encoder.norms[2]` when no module registers it); the node's name in a
    graph; "": the root module, or unknown."""
    class_name: str = ""
    """Its class, or the graph's operator."""
    hidden: bool = False
    """The module is not registered, or was made during the forward."""
    source: str = ""
    """File name and line of the call in the model's own code, `net.py:41`; "" unknown."""
    operator: str = ""
    """`aten.native_batch_norm`, `BatchNormalization`."""


class NormCall(Record, eq=False):
    """One executed normalization operator, seen at the operator level."""

    index: int
    """Position among the norm calls of its forward; the same in every forward of one model."""
    place: Place
    layer: str | None
    """Name of the norm layer of the Description that it belongs to; None: no norm layer (a functional call)."""
    kind: NormKind
    uses_batch: bool
    """The statistics are computed from the input; False: stored ones are used."""
    mixes_samples: bool | None
    """The axes normalized over include the batch axis, as far as the shape shows; None: cannot be told. A proof is
    the swap, see OperatorCall."""
    values_per_statistic: int
    """How many values one statistic is, or would be, computed from, the batch included."""
    values_per_sample: int
    """The same within one sample."""
    channels: int
    eps: float | None = None
    momentum: float | None = None
    """Weight of the new batch."""
    updates: bool = False
    """Running statistics were handed over for update."""
    stored_mean: NDArray[np.float64] | None = None
    """(channels,): what is stored for the layer at the moment of the call; None: nothing is."""
    stored_var: NDArray[np.float64] | None = None
    batch_mean: NDArray[np.float64] | None = None
    """(channels,): of this batch, when it was used."""
    batch_var: NDArray[np.float64] | None = None
    """(channels,), biased (divided by the number of values)."""
    sample_mean: NDArray[np.float64] | None = None
    """(samples, channels): each sample's own mean of what the norm received; with Watch.MOMENTS, batch norms only."""
    sample_var: NDArray[np.float64] | None = None
    """(samples, channels), biased, about the sample's own mean."""


class RandomCall(Record):
    """An executed operator that draws random numbers, or drops at random."""

    place: Place
    """Where it ran."""
    is_dropout: bool
    """It drops values; otherwise it only draws."""
    probability: float | None = None
    """Of dropping; None: not known."""


class StateChange(Record):
    """A tensor or attribute that was not the same after the forward as before, compared bit for bit."""

    name: str
    """Its full name in the model."""
    kind: str
    """buffer, parameter or attribute"""
    persistent: bool
    """A parameter, or a buffer that state_dict() holds."""
    owner: str
    """Class of the module that holds it."""
    digest: int
    """Fingerprint of the value after the forward: equal after two inputs, it does not depend on them."""


class OperatorCall(Record):
    """One executed operator and the fingerprints of what went in and came out (Watch.ROWS)."""

    index: int
    place: Place
    rows_in: tuple[int, ...] | None
    """One fingerprint per anchor over all inputs that have its row; None: no input has rows."""
    others_in: int
    """Fingerprint over all inputs without rows (parameters excluded)."""
    rows_out: tuple[int, ...] | None
    """One per anchor, taken at the moment the operator returned, as it would be without `hold` and `pin`."""
    others_out: int | None
    norm: int | None = None
    """Index of the NormCall that it is."""
    gathered: Place | None = None
    """What computed an input without rows from rows: a reduction over the batch, whose value enters here."""
    arranged: Place | None = None
    """What left the samples of an input along another axis than its shape says: a reshape that mixes rows."""


class Held(Record, eq=False):
    """Statistics to normalize with, instead of the batch's, at one norm call."""

    index: int
    """NormCall.index"""
    mean: NDArray[np.float64]
    var: NDArray[np.float64]


class Pinned(Record, eq=False):
    """Rows of the anchors that an operator returns, to be the same in two forwards; not one that is a norm."""

    index: int
    """OperatorCall.index"""
    rows: tuple[NDArray[np.generic], ...] = ()
    """Of each of its tensors with rows, as the session wrote them; (): they are taken in this forward."""


class Trace(Record, eq=False):
    """One forward of the model."""

    outputs: tuple[Output, ...]
    norm_calls: tuple[NormCall, ...] = ()
    random_calls: tuple[RandomCall, ...] = ()
    operators: tuple[OperatorCall, ...] = ()
    pinned: tuple[Pinned, ...] = ()
    """What was to be pinned, with its rows; without operators whose rows cannot be written."""
    changes: tuple[StateChange, ...] = ()
    """Against the restored state; empty with `restored=False` or Watch.NOTHING."""
    compute_dtype: str = "float32"
    """The coarsest floating dtype of the model's parameters and of what its operators returned."""


class Session(Protocol):
    """A model that can be run. Made by a runner; leaving the runner's context leaves the model as it was.

    Every method raises RunError when the model raises.
    """

    runner: str
    """`PyTorch 2.13.0`, `onnxruntime 1.32.0`."""
    carrier: Carrier
    part: Part
    """The model's norm layers and their modes, as the live model (or the file, for a graph) says."""
    modes: frozenset[Mode]
    """Those that can be run. AS_SAVED only where it differs from INFERENCE."""
    has_production_form: bool
    """Whether Watch.NOTHING runs something else: an optimizing session, a compiled module."""
    signatures: tuple[tuple[GraphInput, ...], ...]
    """What the model takes, likeliest first: one for a graph, guesses from the first layers for a module."""
    sample: Batch | None
    """Inputs that the artifact itself carries."""
    dims: Mapping[str, tuple[int, int | None]]
    """Smallest and largest size of named free dimensions, where the artifact states them."""
    fixed_batch: int | None
    """The batch size that the artifact fixes."""
    loaded: Loaded | None
    """How a checkpoint fitted into the model."""
    entered: Callable[[str], None] | None
    """Told the name of each module that begins to run in a watched forward, where the runner sees modules."""
    remarks: tuple[str, ...]
    """What of the model is not watched, or runs in another way than it would elsewhere; a sentence each."""

    def run(
        self,
        batch: Batch,
        mode: Mode = Mode.INFERENCE,
        watch: Watch = Watch.CALLS,
        *,
        restored: bool = True,
        seed: int | None = None,
        hold: tuple[Held, ...] = (),
        pin: tuple[Pinned, ...] = (),
    ) -> Trace:
        """One forward.

        restored: from the state that the session began with; False: from wherever the forward before left it.
        seed: of every random generator, set before the forward; None: they go on from where they are.
        pin: with Watch.ROWS, operators behind which the anchors go on with the rows given.
        """

    def trained(self) -> Part | None:
        """The model's part after `model.train()` as the user wrote it; None where there is no train()."""

    def double(self) -> AbstractContextManager[Session]:
        """The same model computing in float64. Raises NotPossibleError, also when memory is short."""

    def varied(self, variation: Variation) -> AbstractContextManager[Session]:
        """The same model in INFERENCE mode with some of what it computes with changed; leaving it puts all back.

        Only Mode.INFERENCE can be run in it. Raises NotPossibleError where the model cannot be changed so, or has no
        such layer.
        """

    def influence(self, batch: Batch) -> float:
        """The largest gradient of an anchor's output with respect to a companion's input, relative to the largest
        with respect to its own. Raises NotPossibleError, also when memory is short."""
