"""Rules of renaming that several layers have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from bnaudit.comparison import Rename
from bnaudit.matching.beginnings import shared_beginning, shared_end
from bnaudit.matching.signatures import Signature

Rule = tuple[str, str]
Shapes = Mapping[str, Signature | None]
"""Names with what their layers are like."""
_LEAST_SHARE = 0.25
"""Of the layers left on the smaller side, that a rule must bring together."""
_MOST_TRIED = 48
"""Rules that are tried on all names, the most frequently proposed ones."""


def renamed(name: str, rename: Rename) -> str:
    """The name after the rename: at the first place where `old` begins a piece of it, else where it first stands."""
    return replaced(name, (rename.old, rename.new))


def replaced(name: str, rule: Rule) -> str:
    """The same for a bare (old, new)."""
    old, new = rule
    if not old:
        return new + name
    if not name.startswith(old):
        inner = name.find(f".{old}")
        start = inner + 1 if inner >= 0 else name.find(old)
        return name if start < 0 else name[:start] + new + name[start + len(old) :]
    return new + name[len(old) :]


def best_rule(
    pairs: Iterable[tuple[str, str]], subject: Shapes, baseline: Shapes, twins: Mapping[str, str]
) -> Rule | None:
    """The rule that brings most of the subject's names to names of the baseline with the same shape.

    `pairs` are names (subject's, baseline's) that may belong together; each proposes rules. `twins` are names whose
    layers have equal values, so that a rule that says otherwise is wrong. None when the best one brings fewer than two
    together.
    """
    votes: Counter[Rule] = Counter()
    for one, other in chain(pairs, twins.items()):
        votes.update(set(proposals(one, other)))
    scored = []
    for rule, _ in votes.most_common(_MOST_TRIED):
        alike = _alike(rule, subject, baseline, twins)
        if alike >= 2:
            # Of rules that reach as many, a whole piece, and the shorter one, is the plainer reading.
            scored.append((alike, _is_whole(rule), -len(rule[0]) - len(rule[1]), rule))
    return max(scored)[-1] if scored else None


def _alike(rule: Rule, subject: Shapes, baseline: Shapes, twins: Mapping[str, str]) -> int:
    """How many layers of the same shape it brings together; 0 for one that fits by chance.

    By chance: more of those that it brings together are unlike than alike; characters are replaced in more names than
    are brought together by that; or it is about few of the layers that are left.
    """
    targets = [(name, replaced(name, rule)) for name in subject]
    changed = sum(name != new for name, new in targets)
    back = {other: name for name, other in twins.items()}
    reached = [
        subject[name] == baseline[new] and twins.get(name, new) == new and back.get(new, name) == name
        for name, new in targets
        if new in baseline
    ]
    alike = sum(reached)
    wanted = len(reached) if _is_whole(rule) else max(len(reached), changed)
    few = _LEAST_SHARE * min(len(subject), len(baseline))
    return alike if 2 * alike > wanted and alike >= few else 0


def _is_whole(rule: Rule) -> bool:
    return not rule[0] or rule[0].endswith(".")


def proposals(one: str, other: str) -> Iterator[Rule]:
    """Rules that turn one name into the other: by whole pieces, and by the characters that differ."""
    if one == other:
        return
    pieces, others = one.split(".") if one else [], other.split(".") if other else []
    shared = shared_beginning(pieces, others)
    rest = shared_end(pieces[shared:], others[shared:])
    middle, new = pieces[shared : len(pieces) - rest], others[shared : len(others) - rest]
    yield _by_pieces(pieces[:shared], middle, new, bool(rest))
    if middle and new:
        yield from _by_characters(".".join(middle), ".".join(new))
    if shared and rest:
        prefix = ".".join(pieces[:shared]) + "."
        yield _dotted(prefix, middle), _dotted(prefix, new)


def _by_pieces(shared: list[str], middle: list[str], new: list[str], rest: bool) -> Rule:
    """What differs, with a dot behind when more follows, and with the piece before it when nothing is replaced."""
    before = "" if middle or not shared else shared[-1]
    if not rest and not new:
        return "." + ".".join(middle) if shared else ".".join(middle), ""
    if rest:
        lead = f"{before}." if before else ""
        return _dotted(lead, middle), _dotted(lead, new)
    return ".".join([*([before] if before else []), *middle]), ".".join([*([before] if before else []), *new])


def _dotted(prefix: str, pieces: list[str]) -> str:
    return prefix + "".join(f"{piece}." for piece in pieces)


def _by_characters(old: str, new: str) -> Iterator[Rule]:
    """Without the characters that both begin and end with: `bn1`, `norm1` -> `bn`, `norm`."""
    start = shared_beginning(old, new)
    end = shared_end(old[start:], new[start:])
    if (start or end) and start < len(old) - end:
        yield old[start : len(old) - end], new[start : len(new) - end]


def shared_rules(pairs: Iterable[tuple[str, str]], most: int) -> tuple[Rename, ...]:
    """Rules that together turn the first name of each pair into the second, most layers first.

    Either each name by one rule, or all by rules one after the other (`stage` -> `layer`, then `norm` -> `bn`): the
    fewer. Where `most` rules do not suffice, only those that many have in common.
    """
    unlike = [(one, other) for one, other in pairs if one != other]
    single, chained = list(_one_each(unlike, most)), list(_in_turn(unlike, most))
    if chained and (len(chained) < len(single) or sum(rule.layers for rule in single) < len(unlike)):
        return tuple(chained)
    enough = sum(rule.layers for rule in single) == len(unlike)
    return tuple(rule for rule in single if enough or rule.layers > max(1.0, _LEAST_SHARE * len(unlike)))


def _one_each(left: list[tuple[str, str]], most: int) -> Iterator[Rename]:
    votes: Counter[Rule] = Counter()
    for one, other in left:
        votes.update({rule for rule in proposals(one, other) if replaced(one, rule) == other})
    for rule, _ in votes.most_common(_MOST_TRIED):
        rest = [(one, other) for one, other in left if replaced(one, rule) != other]
        if most > 0 and len(rest) < len(left):
            yield Rename(old=rule[0], new=rule[1], layers=len(left) - len(rest))
            left, most = rest, most - 1


def _in_turn(pairs: list[tuple[str, str]], most: int) -> list[Rename]:
    """A prefix, then replacements within pieces, each applied to all; none when they do not make all names equal."""
    found = [Rename(old=old, new=new, layers=len(pairs)) for old, new in _prefix(pairs)]
    pairs = [(renamed(one, rename), other) for rename in found for one, other in pairs] or pairs
    while (left := [(one, other) for one, other in pairs if one != other]) and len(found) < most:
        votes = Counter(rule for one, other in left for rule in set(_within_pieces(one, other)))
        if not votes:
            return []
        rule = votes.most_common(1)[0][0]
        after = [(replaced(one, rule), other) for one, other in pairs]
        if any(_apart(*new) > _apart(*old) for new, old in zip(after, pairs, strict=True)):
            return []
        found.append(Rename(old=rule[0], new=rule[1], layers=votes[rule]))
        pairs = after
    return found if not left else []


def _prefix(pairs: list[tuple[str, str]]) -> Iterator[Rule]:
    """The pieces that all names of one side begin with and by which they are longer than those of the other."""
    longer = {len(one.split(".")) - len(other.split(".")) for one, other in pairs}
    if len(longer) != 1 or longer == {0}:
        return
    more = longer.pop()
    begin = {tuple(pair[more < 0].split(".")[: abs(more)]) for pair in pairs}
    if len(begin) == 1:
        prefix = _dotted("", list(begin.pop()))
        yield (prefix, "") if more > 0 else ("", prefix)


def _within_pieces(one: str, other: str) -> Iterator[Rule]:
    pieces, others = one.split("."), other.split(".")
    if len(pieces) == len(others):
        for old, new in zip(pieces, others, strict=True):
            if old != new:
                yield next(_by_characters(old, new), (old, new))


def _apart(one: str, other: str) -> int:
    """In how many pieces they differ."""
    pieces, others = one.split("."), other.split(".")
    return sum(old != new for old, new in zip(pieces, others, strict=False)) + abs(len(pieces) - len(others))
