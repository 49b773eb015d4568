"""Pairs the norm layers of two parts: by name, by a common renaming, by order and shape, by values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from bnaudit.comparison import Matching, Pair, PairedBy, Rename
from bnaudit.description import NormLayer, Part
from bnaudit.matching.candidates import likely_pairs
from bnaudit.matching.likeness import equal_pairs, nearest_pairs
from bnaudit.matching.naming import is_counted, plain_name, stored_name
from bnaudit.matching.renaming import best_rule, replaced, shared_rules
from bnaudit.matching.repeats import is_repeated, unrepeated
from bnaudit.matching.signatures import Signature, signature
from bnaudit.matching.stretches import Anchor, between, in_order
from bnaudit.matching.subsequence import unambiguous

_MOST_RENAMES = 16

Key = Callable[[NormLayer], str]


def match(subject: Part, baseline: Part) -> Matching:
    """The layers of both, paired; strongest evidence first, each layer at most once.

    A layer that a graph calls several times is one: its first node.

    1. The same name, prefixes of wrappers apart: the layer's own, or that of its stored tensors. Layers of the same
       name are one layer whatever their shapes, unless one of them has the very values of a layer of another name:
       numbers in names shift when a layer is put in front.
    2. The same name after one rule of renaming that at least two layers have in common.
    3. The same place in order and the same shape, between the layers that are already paired and as far as only one
       such pairing is the longest; values that say otherwise go before.
    4. Bit-equal values, or the nearest by a clear margin.
    """
    return _Matcher(subject.layers, baseline.layers).matched()


class Twins:
    """Places of layers, the subject's and the baseline's, that have equal values."""

    def __init__(self, pairs: Iterable[tuple[int, int]]) -> None:
        self._of_subject = dict(pairs)
        self._of_baseline = {other: place for place, other in self._of_subject.items()}

    def contradict(self, place: int, other: int) -> bool:
        """Whether one of the two is equal to a third layer instead."""
        return self._of_subject.get(place, other) != other or self._of_baseline.get(other, place) != place


class _Matcher:
    def __init__(self, subject: Sequence[NormLayer], baseline: Sequence[NormLayer]) -> None:
        self.subject, self.baseline = subject, baseline
        self.partner: dict[int, tuple[int, PairedBy]] = {}
        """Place in the baseline → place in the subject."""
        self.taken = _repeated(subject)
        self.skipped = _repeated(baseline)

    def matched(self) -> Matching:
        self._by_names()
        self._by_renames()
        self._by_order_and_values()
        pairs = [
            _pair(self.subject[place], self.baseline[other], by) for other, (place, by) in sorted(self.partner.items())
        ]
        return Matching(
            pairs=tuple(pairs),
            only_subject=tuple(layer for _, layer in self._ours),
            only_baseline=tuple(layer for _, layer in self._theirs),
            renames=_renames(pairs),
        )

    @property
    def _ours(self) -> list[tuple[int, NormLayer]]:
        return [(place, layer) for place, layer in enumerate(self.subject) if place not in self.taken]

    @property
    def _theirs(self) -> list[tuple[int, NormLayer]]:
        return [
            (place, layer)
            for place, layer in enumerate(self.baseline)
            if place not in self.partner and place not in self.skipped
        ]

    def _pair(self, place: int, other: int, by: PairedBy) -> None:
        if place not in self.taken and other not in self.partner:
            self.partner[other] = (place, by)
            self.taken.add(place)

    def _by_names(self) -> None:
        """By the layers' names in order of appearance; then by those of their tensors, where one layer has them."""
        equal = Twins(equal_pairs(self._ours, self._theirs))
        self._by_key(_own_name, _own_name, equal, alone=False)
        for ours, theirs in ((stored_name, _own_name), (_own_name, stored_name), (stored_name, stored_name)):
            self._by_key(ours, theirs, equal, alone=True)

    def _by_key(self, ours: Key, theirs: Key, equal: Twins, *, alone: bool) -> None:
        found, others = _by(ours, self._ours), _by(theirs, self._theirs)
        for name, places in found.items():
            across = others.get(name, [])
            if alone and (not name or len(places) > 1 or len(across) > 1):
                continue
            for place, other in zip(places, across, strict=False):
                one, two = self.subject[place], self.baseline[other]
                if equal.contradict(place, other):
                    continue
                if not (is_counted(one) or is_counted(two)) or is_repeated(one, two):
                    self._pair(place, other, PairedBy.NAME)

    def _by_renames(self) -> None:
        for _ in range(_MOST_RENAMES):
            ours, theirs = _named(self._ours), _named(self._theirs)
            if min(len(ours), len(theirs)) < 2:
                return
            shapes = {name: signature(self.subject[place]) for name, place in ours.items()}
            others = {name: signature(self.baseline[place]) for name, place in theirs.items()}
            equal = set(equal_pairs(self._ours, self._theirs))
            rule = best_rule(likely_pairs(list(ours), list(theirs)), shapes, others, self._twin_names(equal))
            if rule is None:
                return
            twins = Twins(equal)
            for name, place in ours.items():
                other = theirs.get(replaced(name, rule))
                if other is not None and not twins.contradict(place, other):
                    self._pair(place, other, PairedBy.RENAME)

    def _twin_names(self, pairs: Iterable[Anchor]) -> dict[str, str]:
        return {_rename_from(self.subject[place]): _rename_from(self.baseline[other]) for place, other in pairs}

    def _by_order_and_values(self) -> None:
        ours, theirs = self._ours, self._theirs
        if not ours or not theirs:
            return
        ordered = self._ordered()
        valued = set(equal_pairs(ours, theirs))
        self._pair_all(valued, ordered)
        near = set(nearest_pairs(self._ours, self._theirs))
        self._pair_all(near, ordered)
        # Where values show that the order was changed, places say nothing of the rest.
        if len(in_order(valued | near)) == len(valued | near):
            self._pair_all(self._ordered(), None)

    def _pair_all(self, pairs: set[Anchor], ordered: set[Anchor] | None) -> None:
        for place, other in sorted(pairs):
            by_order = ordered is None or (place, other) in ordered
            self._pair(place, other, PairedBy.ORDER if by_order else PairedBy.VALUES)

    def _ordered(self) -> set[Anchor]:
        """Pairs at the same place in order, looked for between layers that are paired already."""
        anchors = [(place, other) for other, (place, _) in self.partner.items()]
        found: set[Anchor] = set()
        for one, other in between(anchors, self._ours, self._theirs):
            alike = unambiguous([_shape(*each) for each in one], [_shape(*each, sign=-1) for each in other])
            # Networks of different kinds have shapes in common, too.
            if 2 * len(alike) >= min(len(one), len(other)):
                found |= {(one[i][0], other[j][0]) for i, j in alike}
        return found


def _pair(subject: NormLayer, baseline: NormLayer, by: PairedBy) -> Pair:
    return Pair(subject=unrepeated(subject, baseline), baseline=unrepeated(baseline, subject), by=by)


def _shape(place: int, layer: NormLayer, sign: int = 1) -> Signature | int:
    """The signature; where the channels are unknown something that equals nothing on the other side."""
    return signature(layer) or sign * (place + 1)


def _repeated(layers: Sequence[NormLayer]) -> set[int]:
    """Places of layers whose tensors are all those of an earlier one: a graph has a node for each call of a layer."""
    seen: dict[tuple[str, ...], NormLayer] = {}
    found = set()
    for place, layer in enumerate(layers):
        names = tuple(tensor.name for tensor in layer.tensors)
        if names and _is_same(seen.setdefault(names, layer), layer):
            found.add(place)
    return found


def _is_same(first: NormLayer, layer: NormLayer) -> bool:
    """Whether another layer has equal tensors, those of the same names."""
    pairs = [(one.values, other.values) for one, other in zip(first.tensors, layer.tensors, strict=True)]
    return first is not layer and all(
        one is other or (one is not None and other is not None and one.tobytes() == other.tobytes())
        for one, other in pairs
    )


def _by(key: Key, layers: Iterable[tuple[int, NormLayer]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for place, layer in layers:
        found.setdefault(key(layer), []).append(place)
    return found


def _own_name(layer: NormLayer) -> str:
    return plain_name(layer.name)


def _named(layers: Iterable[tuple[int, NormLayer]]) -> dict[str, int]:
    """The layers whose name says something, by it."""
    found = ((_rename_from(layer), place) for place, layer in layers)
    return {name: place for name, place in found if name}


def _rename_from(layer: NormLayer) -> str:
    """Its name; that of its tensors where an exporter counted; "" where both say nothing."""
    return stored_name(layer) if is_counted(layer) else plain_name(layer.name)


def _renames(pairs: Iterable[Pair]) -> tuple[Rename, ...]:
    """What makes the names of those equal that were not paired by name."""
    renamed = [pair for pair in pairs if pair.by is not PairedBy.NAME]
    names = [(_rename_from(pair.subject), _rename_from(pair.baseline)) for pair in renamed]
    return shared_rules([(one, other) for one, other in names if one and other], _MOST_RENAMES)
