"""Edited copies with instruments, each made once: shapes and moments of what norms receive, other forms of norms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bnaudit.onnx_session.bodies import bodies
from bnaudit.onnx_session.copies import OLDEST_OPSET, Copy
from bnaudit.onnx_session.engines import Engine, Engines, Feeds
from bnaudit.onnx_session.pinning import Pin, put_in_place
from bnaudit.onnx_session.statistics import Moments, give_training_form, hold, hold_body, sample_moments
from bnaudit.onnx_session.survey import NormNode, Survey
from bnaudit.session import Held, NotPossibleError

_MOST_KEPT = 2
"""Engines that are kept: each may hold the model's weights once more."""


class Form(NamedTuple):
    """Which copy of the graph."""

    training: bool = False
    """Batch norms in inference form got their training form."""
    moments: bool = False
    """The moments of every sample are handed out, for every batch norm."""
    held: tuple[int, ...] = ()
    """Indices of norms whose statistics are given."""
    exposed: tuple[str, ...] = ()
    """Values that are handed out, by the names of the model."""
    pinned: tuple[tuple[int, str, int, int], ...] = ()
    """Values with rows that are given, see `Pin.form`."""
    sizes: tuple[str, ...] = ()
    """Values whose shapes are handed out."""


class Reading(NamedTuple):
    """What one run of a copy gave."""

    outputs: list[Any]
    """Of the model, in its order."""
    shapes: dict[str, tuple[int, ...]]
    """Of what the norms received, and of `Form.sizes`, by name."""
    moments: dict[int, tuple[NDArray[np.float64], NDArray[np.float64]]]
    """(samples, channels) means and variances, by norm index."""
    exposed: dict[str, Any]
    """As what follows gets them."""
    own: dict[str, Any]
    """Of these what nodes compute for which something else is put in place."""
    dtypes: dict[str, str]


class _Built(NamedTuple):
    engine: Engine
    shapes: dict[str, str]
    moments: dict[int, Moments]
    held: dict[int, Moments]
    exposed: dict[str, str]
    own: dict[str, str]
    pinned: dict[str, tuple[str, str]]


class Instruments:
    """Makes, keeps and runs copies of one model."""

    def __init__(self, engines: Engines, survey: Survey) -> None:
        self._engines = engines
        self._survey = survey
        self._built: dict[Form, _Built] = {}
        self.bodies = bodies(engines.skeleton.graph.node, survey)
        self._in_order = not (survey.randoms and engines.any_order)

    def forget(self) -> None:
        """Drop all engines: random operators of new ones begin with the seed that is set then."""
        self._built = {}

    def read(
        self, form: Form, feeds: Feeds, held: Sequence[Held] = (), pinned: Sequence[Pin] = (), *, keep: bool = True
    ) -> Reading:
        """Run one copy. Raises RunError when the graph fails, NotPossibleError when there can be no such copy."""
        built = self._built.get(form)
        if built is None:
            built = self._build(form)
        if keep:
            self._built[form] = built
            while len(self._built) > _MOST_KEPT:
                del self._built[next(iter(self._built))]
        given = {
            name: array
            for each in held
            for name, array in zip(built.held[each.index], (each.mean, each.var), strict=True)
        }
        rows = {
            name: array
            for each in pinned
            for name, array in zip(built.pinned[each.name], (each.values, each.mask), strict=True)
        }
        held_values = {name: np.asarray(array, np.float64) for name, array in given.items()}
        return self._run(built, {**feeds, **held_values, **rows})

    def _run(self, built: _Built, feeds: Feeds) -> Reading:
        own = [output.name for output in self._engines.skeleton.graph.output]
        pairs = [name for moments in built.moments.values() for name in moments]
        names = [*own, *built.shapes.values(), *pairs, *built.exposed.values(), *built.own.values()]
        values = iter(built.engine.run(names, feeds))
        outputs = [next(values) for _ in own]
        shapes = {name: tuple(int(size) for size in next(values)) for name in built.shapes}
        moments = {index: (next(values)[..., 0], next(values)[..., 0]) for index in built.moments}
        exposed = {name: next(values) for name in built.exposed}
        computed = {name: next(values) for name in built.own}
        dtypes = {
            name: built.engine.dtypes[alias] for name, alias in built.exposed.items() if alias in built.engine.dtypes
        }
        dtypes |= {name: built.engine.dtypes[name] for name in own if name in built.engine.dtypes}
        return Reading(outputs, shapes, moments, exposed, computed, dtypes)

    def _build(self, form: Form) -> _Built:
        copy = Copy(self._engines.skeleton)
        if copy.opset < OLDEST_OPSET:
            raise NotPossibleError(
                f"a graph of opset {copy.opset} cannot be watched",
                remedy=f"convert it to opset {OLDEST_OPSET} or later with onnx.version_converter",
            )
        shapes = {name: copy.give_out(copy.add(copy.end, "Shape", [name])) for name in self._looked_at(form)}
        moments, held, computed = {}, {}, dict[str, str]()
        for norm in self._survey.norms:
            if has_moments(norm) and (form.moments or (form.training and not norm.uses_batch)):
                found = sample_moments(copy, norm)
                if form.moments:
                    moments[norm.position] = Moments(*map(copy.give_out, found))
                if form.training and not norm.uses_batch:
                    give_training_form(copy, norm, found)
            if norm.position in form.held:
                held[norm.position], own = self._hold(copy, norm)
                computed |= own
        pinned = {}
        for value in form.pinned:
            pinned[value[1]], computed[value[1]] = put_in_place(copy, value)
        exposed = {name: copy.give_out(name) for name in form.exposed}
        computed = {name: copy.give_out(own) for name, own in computed.items() if name in exposed}
        edited = self._engines.edited(copy.finish(in_order=self._in_order))
        return _Built(edited, shapes, moments, held, exposed, computed, pinned)

    def _hold(self, copy: Copy, norm: NormNode) -> tuple[Moments, dict[str, str]]:
        body = self.bodies.get(norm.position)
        if norm.is_batch_norm:
            name = copy.original(norm.number).output[0]
            given, own = hold(copy, norm)
            return given, {name: own}
        if body is not None and body.mean:
            return hold_body(copy, norm, body)
        raise NotPossibleError("the statistics of a norm cannot be held fixed", where=norm.layer.name)

    def _looked_at(self, form: Form) -> list[str]:
        return list(dict.fromkeys([*(norm.data for norm in self._survey.norms), *form.sizes]))


def has_moments(norm: NormNode) -> bool:
    """Whether the statistics of a norm are those of channels on the second axis, over everything else."""
    per_activation = norm.layer.declared_channels is None and norm.opset < 9
    return norm.is_batch_norm and not per_activation
