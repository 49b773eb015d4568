"""A model in NumPy behind the protocols of Session and Feed: what a probe decides is tested without a framework.

(samples, places, 6) → linear → norm `one` → ReLU → linear → norm `two` → mean over places → linear → (samples, 3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from builders import batch_norm, tensor
from numpy.typing import NDArray

from bnaudit.description import Carrier, NormKind, Part
from bnaudit.feeds import Feed
from bnaudit.session import (
    Batch,
    Held,
    Mode,
    NormCall,
    NotPossibleError,
    OperatorCall,
    Output,
    Pinned,
    Place,
    RandomCall,
    RunError,
    Session,
    StateChange,
    Trace,
    Watch,
)
from bnaudit.variation import Variation

Array = NDArray[np.float64]
CHANNELS, PLACES, EPS = 6, 9, 1e-5
NORMS = ("one", "two")


@dataclass
class Net:
    """What is wrong with the model; without arguments nothing is."""

    leaky: frozenset[str] = frozenset()
    """Norms that use the batch after eval()."""
    by_configuration: frozenset[str] = frozenset()
    """Norms of these that keep no statistics."""
    batch_spread: float = 0.0
    """Share of the batch's standard deviation that is added to the features."""
    noise: float = 0.0
    """A difference that depends on the companions, in rounding steps of the arithmetic."""
    faint: float = 0.0
    """The same as an absolute size, whatever the arithmetic."""
    random: bool = False
    seldom: bool = False
    """What is drawn matters in the second forward in a row alone."""
    seedless: bool = False
    drops: bool = False
    history: bool = False
    state: str = ""
    """`cache` or `average`: a buffer that changes after eval(); `answer`: the first answer is given again."""
    head: float = 1.0
    """Factor of the last layer: 0, the outputs are constant."""
    integers: bool = False
    keep_eval: bool = False
    """Its own train() leaves the norms in eval mode."""
    raises_at_one: bool = False
    squeezes: bool = False
    wrong_at_one: float = 0.0
    product_with_zero: bool = False
    """Companions times 0 are added."""
    by_position: float = 0.0
    """What a row's output grows by with its position in the batch."""
    shared: bool = False
    """Both norms are one layer."""
    fresh: bool = False
    """As it was built."""
    unseen: bool = False
    """Its norm operators cannot be seen."""
    stored: dict[str, tuple[Array, Array]] = field(default_factory=dict)


def weights() -> list[Array]:
    generator = np.random.default_rng(7)
    return [
        generator.normal(size=(CHANNELS, CHANNELS)),
        generator.normal(size=(CHANNELS, CHANNELS)),
        generator.normal(size=(CHANNELS, 3)),
    ]


def pool(samples: int = 400, seed: int = 1) -> Array:
    """Samples whose places are alike: half of the variance is the sample's own."""
    generator = np.random.default_rng(seed)
    return (generator.normal(size=(samples, 1, CHANNELS)) + generator.normal(size=(samples, PLACES, CHANNELS))).astype(
        "float32"
    )


def perfect(off: dict[str, tuple[float, float]] | None = None) -> dict[str, tuple[Array, Array]]:
    """The statistics of 20,000 samples, moved by a number of standard deviations and a factor of the variance."""
    values, stored = pool(20_000, seed=2).astype("float64"), {}
    for name, weight in zip(NORMS, weights(), strict=False):
        values = values @ weight
        mean, var = values.mean(axis=(0, 1)), values.var(axis=(0, 1))
        shift, factor = (off or {}).get(name, (0.0, 1.0))
        stored[name] = (mean + shift * np.sqrt(var), var * factor)
        values = np.maximum((values - mean) / np.sqrt(var + EPS), 0.0)
    return stored


PERFECT = perfect()


class FakeSession:
    """One forward of a Net, recorded as a runner would."""

    runner = "NumPy"
    loaded = None
    sample = None
    signatures = ()
    remarks: tuple[str, ...] = ()

    def __init__(
        self,
        net: Net | None = None,
        *,
        modes: tuple[Mode, ...] = (Mode.INFERENCE, Mode.TRAINING_NORMS),
        fixed_batch: int | None = None,
        dtype: str = "float32",
        doubles: bool = True,
        influence: float | None = None,
        production: float | None = None,
        trained: Part | None = None,
        norms: bool = True,
    ) -> None:
        self.net = net or Net()
        self.modes = frozenset(modes)
        self.fixed_batch = fixed_batch
        self.carrier = Carrier.MODULE
        self.has_production_form = production is not None
        self.dims: dict[str, tuple[int, int | None]] = {}
        self.runs: list[dict[str, Any]] = []
        self._dtype, self._doubles, self._influence, self._production = dtype, doubles, influence, production
        self._trained = trained
        self._calls, self._generator = 0, np.random.default_rng()
        self._kept: tuple[Output, ...] = ()
        layers = [
            batch_norm(name, mean=None, var=None, counter=None, tracks_statistics=False)
            if name in self.net.by_configuration
            else batch_norm(
                name,
                **(
                    {"mean": [0, 0], "var": [1, 1], "gamma": [1, 1], "beta": [0, 0], "counter": 0}
                    if self.net.fresh
                    else {}
                ),
            )
            for name in NORMS
        ]
        self.part = Part(name="", carrier=Carrier.MODULE, layers=tuple(layers) if norms else ())
        self._norms = norms

    def trained(self) -> Part | None:
        return self._trained

    @contextmanager
    def double(self) -> Iterator[Session]:
        if not self._doubles:
            raise NotPossibleError("memory is short")
        double = FakeSession(self.net, dtype="float64")
        double.runs = self.runs
        yield cast(Session, double)

    def varied(self, variation: Variation) -> AbstractContextManager[Session]:
        raise NotPossibleError("nothing can be changed here")

    def influence(self, batch: Batch) -> float:
        if self._influence is None:
            raise NotPossibleError("no gradients here")
        return self._influence

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
        self.runs.append(
            {
                "size": batch.size,
                "mode": mode,
                "watch": watch,
                "restored": restored,
                "seed": seed,
                "hold": hold,
                "dtype": self._dtype,
            }
        )
        if pin:
            raise NotPossibleError("rows are not held here")
        self._calls = 0 if restored else self._calls
        if seed is not None and not self.net.seedless:
            self._generator = np.random.default_rng(seed)
        forward = Forward(self, batch, mode, watch, {held.index: held for held in hold})
        outputs = forward.outputs(self._calls)
        if self.net.state == "answer":
            outputs = self._kept = outputs if restored else self._kept
        self._calls += 1
        if watch is Watch.NOTHING and self._production:
            outputs = (Output(name="", values=outputs[0].values + np.float32(self._production), dtype=self._dtype),)
        return Trace(
            outputs=outputs,
            norm_calls=() if self.net.unseen else tuple(forward.calls),
            random_calls=forward.random,
            operators=tuple(forward.operators),
            changes=forward.changes() if restored else (),
            compute_dtype=self._dtype,
        )


class Forward:
    """The arithmetic and the record of one forward."""

    def __init__(self, session: FakeSession, batch: Batch, mode: Mode, watch: Watch, held: dict[int, Held]) -> None:
        self.session, self.net, self.batch, self.watch, self.held = session, session.net, batch, watch, held
        self.training = mode is Mode.TRAINING_NORMS and not self.net.keep_eval
        self.saved = mode is Mode.AS_SAVED
        self.calls: list[NormCall] = []
        self.operators: list[OperatorCall] = []
        self.random: tuple[RandomCall, ...] = ()
        self.inputs = np.asarray(batch.args[0], dtype="float64")

    def outputs(self, calls: int) -> tuple[Output, ...]:
        net, values = self.net, self.inputs
        if self.batch.size == 1 and net.raises_at_one:
            raise RunError("ValueError: Expected more than 1 value per channel")
        for name, weight in zip(NORMS, weights(), strict=False):
            values = self._operator("matmul", values, values @ weight)
            values = self._norm(name, values) if self.session._norms else values
            values = self._operator("relu", values, np.maximum(values, 0.0))
        features = self._operator("mean", values, values.mean(axis=1))
        features = self._operator("spread", features, self._meet(features))
        logits = self._operator("head", features, features @ weights()[2] * net.head)
        logits = self._draw(logits, calls) + calls * (0.5 if net.history else 0.0)
        logits = logits + net.by_position * np.arange(self.batch.size)[:, None]
        if self.batch.size == 1:
            logits = logits + net.wrong_at_one
        return (self._output(logits),)

    def _output(self, logits: Array) -> Output:
        dtype = self.session._dtype
        if self.net.integers:
            return Output(name="", values=logits.argmax(axis=1), dtype="int64")
        values = logits.astype(dtype)
        return Output(name="", values=values.squeeze() if self.net.squeezes else values, dtype=dtype)

    def _meet(self, features: Array) -> Array:
        """What one row gets from the others."""
        net = self.net
        everything = float(np.nansum(self.inputs)) % 1.0 + 0.5 if net.noise or net.faint else 0.0
        step = float(np.finfo(self.session._dtype).eps)
        if net.batch_spread:
            features = features + net.batch_spread * features.std(axis=0)
        if net.product_with_zero:
            features = features + 0.0 * features.sum(axis=0)
        return np.asarray(features + everything * (net.noise * step + net.faint))

    def _draw(self, logits: Array, calls: int) -> Array:
        if not self.net.random:
            return logits
        place = Place(module="drop", class_name="Dropout", operator="aten.bernoulli_")
        self.random = (RandomCall(place=place, is_dropout=self.net.drops, probability=0.5),)
        drawn = self.session._generator.normal(size=logits.shape)
        return logits if self.net.seldom and not calls else logits + drawn

    def _norm(self, name: str, values: Array) -> Array:
        mean, var = (self.net.stored or PERFECT)[name]
        used = self.training or self.saved or name in self.net.leaky
        batch_mean, batch_var = values.mean(axis=(0, 1)), values.var(axis=(0, 1))
        index = len(self.calls)
        moments = self.watch is Watch.MOMENTS
        self.calls.append(
            NormCall(
                index=index,
                place=Place(module=name, class_name="BatchNorm1d", operator="aten.native_batch_norm"),
                layer="one" if self.net.shared else name,
                kind=NormKind.BATCH,
                uses_batch=used,
                mixes_samples=used,
                values_per_statistic=values.shape[0] * values.shape[1],
                values_per_sample=values.shape[1],
                channels=CHANNELS,
                eps=EPS,
                updates=used,
                stored_mean=mean,
                stored_var=var,
                batch_mean=batch_mean if used else None,
                batch_var=batch_var if used else None,
                sample_mean=values.mean(axis=1) if moments else None,
                sample_var=values.var(axis=1) if moments else None,
            )
        )
        free = (values - (batch_mean if used else mean)) / np.sqrt((batch_var if used else var) + EPS)
        self._operator("norm", values, free, norm=index)
        if (held := self.held.get(index)) is None:
            return np.asarray(free)
        return np.asarray((values - held.mean) / np.sqrt(held.var + EPS))

    def _operator(self, name: str, before: Array, after: Array, norm: int | None = None) -> Array:
        if self.watch is Watch.ROWS:
            self.operators.append(
                OperatorCall(
                    index=len(self.operators),
                    place=Place(module=name, operator=name),
                    rows_in=self._rows(before),
                    others_in=0,
                    rows_out=self._rows(after),
                    others_out=None,
                    norm=norm,
                )
            )
        return after

    def _rows(self, values: Array) -> tuple[int, ...]:
        return tuple(hash(values[row].astype("float32").tobytes()) for row in self.batch.anchors)

    def changes(self) -> tuple[StateChange, ...]:
        if not self.net.state:
            return ()
        digest = hash(self.inputs.shape) if self.net.state == "cache" else hash(self.inputs.tobytes())
        return (StateChange(name="one.kept", kind="buffer", persistent=True, owner="Net", digest=digest),)


class FakeFeed:
    """Anchors in rows 0, middle and last, a copy of the first in row 1; companions from the pool."""

    def __init__(
        self, size: int = 16, *, seed: int = 3, synthetic: bool = False, same: bool = False, lengths: bool = False
    ) -> None:
        order = np.random.default_rng(seed).permutation(400)
        self._pool = pool()[order]
        self._size, self._same, self._lengths = size, same, lengths
        self.source, self.synthetic, self.remarks = "the test's pool", synthetic, ()
        self.guessed_layout = False
        self._anchors = tuple(sorted({0, 1, size // 2, size - 1})) if size >= 6 else (size - 1,)
        self.copy = (0, 1) if size >= 6 else None
        self.alone_row = self._anchors[-1]
        self.companions_differ = not same and size > 1
        self.samples = size - (self.copy is not None) + (size - len(self._anchors)) * (not same)

    def _rows(self, second: bool, times: float = 1.0) -> Any:
        rows = self._pool[: self._size].copy()
        for row in range(self._size):
            if row not in self._anchors:
                rows[row] = (self._pool[row + 100] if second and not self._same else rows[row]) * times
        if self.copy is not None:
            rows[self.copy[1]] = rows[self.copy[0]]
        return rows

    def _batch(self, rows: Any, anchors: tuple[int, ...] | None = None) -> Batch:
        return Batch(args=(rows,), size=len(rows), anchors=self._anchors if anchors is None else anchors)

    @property
    def base(self) -> Batch:
        return self._batch(self._rows(False))

    @property
    def swapped(self) -> Batch:
        return self._batch(self._rows(True))

    @property
    def scaled(self) -> Batch:
        return self._batch(self._rows(False, 100.0))

    @property
    def alone(self) -> Batch:
        return self._batch(self._rows(False)[self.alone_row :][:1], (0,))

    def few(self, size: int) -> Batch:
        rows = self._rows(False)
        return self._batch(np.concatenate([rows[self.alone_row :][:1], rows[2 : size + 1]]), (0,))

    def pair(self, swapped: bool) -> Batch:
        rows = self._rows(swapped)
        return self._batch(np.stack([rows[self.alone_row], rows[2]]), (0,))

    def poisoned(self) -> Batch | None:
        return self._batch(self._rows(False, float("nan")))

    def lengthened(self) -> tuple[Batch, int, tuple[int, int]] | None:
        return (self.swapped, 1, (PLACES, PLACES + 3)) if self._lengths else None


def experiment(net: Net | None = None, feed: FakeFeed | None = None, **session: Any) -> Any:
    """An Experiment of the fake model on the fake feed."""
    from bnaudit.experiment import Experiment

    return Experiment(cast(Session, FakeSession(net, **session)), cast(Feed, feed or FakeFeed()))


def measured(probe: str, net: Net | None = None, feed: FakeFeed | None = None, **session: Any) -> list[Any]:
    """Everything that a probe yields."""
    from bnaudit.plugins import load

    measure: Callable[[Any], Iterator[Any]] = load("bnaudit.probes", probe).PROBE.measure
    return list(measure(experiment(net, feed, **session)))


__all__ = [
    "PERFECT",
    "FakeFeed",
    "FakeSession",
    "Net",
    "experiment",
    "measured",
    "perfect",
    "pool",
    "replace",
    "tensor",
]
