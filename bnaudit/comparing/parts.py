"""Which part of each file is compared, where a checkpoint holds several and none was named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product
from pathlib import Path
from typing import NamedTuple

from bnaudit.comparison import Matching, Move
from bnaudit.description import Carrier, Description, Part
from bnaudit.matching import match, moves

_MOST = 24
"""Combinations that are tried."""


class Choice(NamedTuple):
    """A part of each, with their layers paired."""

    subject: Part
    baseline: Part
    matching: Matching
    moves: tuple[Move, ...]


def best_choice(subject: Sequence[Part], baseline: Sequence[Part]) -> Choice:
    """The two parts of which most layers pair, then of which most are equal, then with the same name, then the first.

    Each of the two sequences has a part at least.
    """
    tried = islice(product(_with_norms(subject), _with_norms(baseline)), _MOST)
    return max((_choice(mine, theirs) for mine, theirs in tried), key=_score)


def _choice(subject: Part, baseline: Part) -> Choice:
    matching = match(subject, baseline)
    return Choice(subject, baseline, matching, moves(matching))


def _score(choice: Choice) -> tuple[int, int, bool]:
    equal = sum(move.affine_equal is True and move.statistics_equal is True for move in choice.moves)
    return len(choice.matching.pairs), equal, choice.subject.name == choice.baseline.name


def chosen_of(description: Description, part: Part, others: Sequence[Part]) -> Iterator[str]:
    """Says which part was compared, where there were others to choose from."""
    names = [other.name or "the file itself" for other in _with_norms(others)]
    if len(names) > 1:
        path = Path(description.artifact.path).name
        listed = ", ".join(names[:6]) + (", …" if len(names) > 6 else "")
        yield f"{path} holds {listed}: {part.name or 'the file itself'} is compared ({path}#name takes another)"


def parts_of(description: Description) -> tuple[Part, ...]:
    """The parts of a file, a nameless empty one where it has none."""
    return description.parts or (Part(name="", carrier=Carrier.STATE_DICT),)


def _with_norms(parts: Sequence[Part]) -> Sequence[Part]:
    return [part for part in parts if part.layers] or parts
