"""Finds, for every norm, the layer that it belongs to and the one that holds both on the folded side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bnaudit.comparison import LinearLayer
from bnaudit.description import NormLayer
from bnaudit.errors import UnreadableError
from bnaudit.folding.causes import is_equal
from bnaudit.folding.counterparts import Counterparts
from bnaudit.folding.measuring import SAME_DIRECTION, Weighed, weigh, weigh_reordered
from bnaudit.folding.norm_state import NormState


class Place(NamedTuple):
    """Where one norm went."""

    weighed: Weighed
    named: bool
    """The two layers have the same name, and are not only the same in order and shape."""

    @property
    def related(self) -> bool:
        """Whether the two are the same layer: by name, or because their channels point the same way."""
        return self.named or self.weighed.turned < SAME_DIRECTION


class Finder:
    """Finds the places of the norms of one side among the layers of the other, reading two weights at a time."""

    def __init__(
        self, norms: Sequence[tuple[NormLayer, NormState]], own: Sequence[LinearLayer], counterparts: Counterparts
    ) -> None:
        self._norms = norms
        self._own = own
        self._counterparts = counterparts
        self._weighed: dict[tuple[int, int, bool], Weighed | None] = {}
        self._has_topology = any(layer.norm_after or layer.norm_before for layer in own)
        self.unread: dict[str, str] = {}
        """Why a layer could not be read, by its name."""

    def places(self) -> dict[str, Place]:
        """By the norm's name. Norms that are missing have no place."""
        found = dict(self._by_topology() if self._has_topology else self._by_order())
        taken = {place.weighed.own.name for place in found.values()}
        for layer, state in self._norms:
            if layer.name not in found:
                place = self._by_value(state, taken)
                if place is not None:
                    found[layer.name] = place
                    taken.add(place.weighed.own.name)
        return found

    def _by_topology(self) -> Iterator[tuple[str, Place]]:
        behind = {layer.norm_after: layer for layer in self._own if layer.norm_after}
        ahead = {layer.norm_before: layer for layer in self._own if layer.norm_before}
        for norm, state in self._norms:
            for own, before in ((behind.get(norm.name), False), (ahead.get(norm.name), True)):
                weighed = self._weigh(own, state, before) if own is not None else None
                if weighed is not None and (not before or weighed.turned < SAME_DIRECTION):
                    yield norm.name, Place(weighed, self._counterparts.by_name(weighed.own))
                    break

    def _by_order(self) -> Iterator[tuple[str, Place]]:
        """The layer before the norm; where that is not its fold to rounding, any other that is goes first."""
        plain, exact = self._in_front()
        usual = len(exact) >= len(plain)
        taken = {weighed.own.name for weighed in exact.values()}
        for norm, state in self._norms:
            place = self._by_value(state, taken) if norm.name not in exact else None
            if place is None or (usual and norm.name in plain and _elsewhere(norm, plain[norm.name], place.weighed)):
                continue
            exact[norm.name] = place.weighed
            taken.add(place.weighed.own.name)
        for norm, state in self._norms:
            chosen = exact.get(norm.name) or plain.get(norm.name) or self._behind(norm, state)
            if chosen is not None and (norm.name in exact or chosen.own.name not in taken):
                yield norm.name, Place(chosen, self._counterparts.by_name(chosen.own))

    def _in_front(self) -> tuple[dict[str, Weighed], dict[str, Weighed]]:
        """By the norm's name the layer that stands before it: those that are not its fold, and those that are."""
        ahead = {layer.next_norm: layer for layer in self._own if layer.next_norm}
        plain: dict[str, Weighed] = {}
        exact: dict[str, Weighed] = {}
        for norm, state in self._norms:
            own = ahead.get(norm.name)
            weighed = self._weigh(own, state, False) if own is not None else None
            if weighed is not None:
                (exact if is_equal(weighed, state) else plain)[norm.name] = weighed
        return plain, exact

    def _behind(self, norm: NormLayer, state: NormState) -> Weighed | None:
        """The layer behind a norm that has none before it, where its input channels are multiples of what they were."""
        own = next((layer for layer in self._own if layer.previous_norm == norm.name), None)
        weighed = self._weigh(own, state, True) if own is not None else None
        return weighed if weighed is not None and weighed.turned < SAME_DIRECTION else None

    def _by_value(self, state: NormState, taken: set[str]) -> Place | None:
        """The one layer whose counterpart is its fold with this norm to rounding."""
        found = []
        for own in self._own:
            if own.name not in taken:
                weighed = self._weigh(own, state, False)
                if weighed is not None and not weighed.unchanged and is_equal(weighed, state):
                    found.append(weighed)
        return Place(found[0], False) if len(found) == 1 else None

    def _weigh(self, own: LinearLayer, state: NormState, before: bool) -> Weighed | None:
        key = (id(own), state.mean.size, before)
        if key not in self._weighed:
            self._weighed[key] = self._measure(own, state.mean.size, before)
        return self._weighed[key]

    def _measure(self, own: LinearLayer, channels: int, before: bool) -> Weighed | None:
        """Against the counterpart by name or order; where that points elsewhere, against the one that does not."""
        if own.name in self.unread:
            return None
        try:
            other = self._counterparts.of(own)
            found = weigh(own, other, channels, before=before) if other is not None else None
            if before or (found is not None and found.turned < SAME_DIRECTION):
                return found
            alike = self._counterparts.alike(own, channels)
            better = weigh(own, alike, channels) if alike is not None else None
            if better is not None and better.turned < SAME_DIRECTION:
                return better
            return (weigh_reordered(own, other, channels) if other is not None else None) or found
        except UnreadableError as error:
            self.unread[own.name] = str(error)
            return None


def _elsewhere(norm: NormLayer, before: Weighed, found: Weighed) -> bool:
    """Whether the layer before the norm is of the same block and the one that was found is not: norms exchanged."""
    home = norm.name.rpartition(".")[0]
    return before.own.name.rpartition(".")[0] == home != found.own.name.rpartition(".")[0]
