"""Which column of a log is what, by its name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from bnaudit.diagnosis import ScoreKind

KEYS = (
    "input",
    "input_index",
    "index",
    "row",
    "sample",
    "key",
    "input_id",
    "sample_id",
    "sample_index",
    "row_id",
    "image_id",
    "image",
    "example",
    "uid",
    "id",
)
"""Names of the column that says which input it was; the first that is there counts."""
CONTENT = ("input_hash", "content_hash", "content", "hash", "digest", "sha256", "md5")
REQUESTS = ("request_id", "request", "batch_id", "batch", "req")
SIZES = ("batch_size", "batchsize", "size")
TIMES = ("time", "timestamp", "datetime", "date", "ts")
LABELS = (
    "label",
    "labels",
    "prediction",
    "predicted",
    "predictions",
    "pred",
    "class",
    "predicted_class",
    "predicted_label",
    "class_id",
    "top1",
    "top_1",
    "argmax",
)
_FEATURES = frozenset({"feature", "feat", "x", "in", "input", "inputs", "pixel", "features"})
_SCORES = frozenset(
    (
        "logit",
        "score",
        "prob",
        "probability",
        "proba",
        "softmax",
        "class",
        "output",
        "out",
        "y",
        "p",
        "embedding",
        "embeddings",
        "emb",
        "e",
        "dim",
        "d",
        "value",
        "col",
        "logits",
        "scores",
        "probs",
        "probabilities",
        "outputs",
        "values",
        "predictions",
    )
)
_NUMBERED = re.compile(r"(.*?)[\s_.\[(-]*([0-9]{1,9})[\])]?")
_KINDS = (
    ("logit", ScoreKind.LOGITS),
    ("prob", ScoreKind.PROBABILITIES),
    ("softmax", ScoreKind.PROBABILITIES),
    ("emb", ScoreKind.EMBEDDINGS),
)


class Roles(NamedTuple):
    """The columns by what they say."""

    key: str | None = None
    content: tuple[str, ...] = ()
    """Columns that together say which input it was: a hash, or the features themselves."""
    request: str | None = None
    size: str | None = None
    time: str | None = None
    label: str | None = None
    numbered: tuple[tuple[str, int], ...] = ()
    """Score columns whose names end in a number, and the number."""
    others: tuple[str, ...] = ()
    """Columns of no known role; scores, where nothing else is."""


def roles(names: Iterable[str]) -> Roles:
    """What each column is. A name's case, spaces and hyphens do not matter."""
    named = {plain(name): name for name in names}
    key, content = _first(named, KEYS), _first(named, CONTENT)
    request, size, time = _first(named, REQUESTS), _first(named, SIZES), _first(named, TIMES)
    label = _first(named, LABELS)
    taken = {*KEYS, *CONTENT, *REQUESTS, *SIZES, *TIMES, *LABELS, "columns"}
    free = {name: split(name) for name in named if name not in taken}
    features = tuple(named[n] for n, (prefix, number) in free.items() if prefix in _FEATURES and number is not None)
    whole = tuple(named[n] for n in free if n in _FEATURES)
    if len(whole) + len(features) < len(free):
        features += whole
    numbered = _numbered(named, {n: parts for n, parts in free.items() if parts[0] not in _FEATURES})
    used = {*features, *(name for name, _ in numbered)}
    others = tuple(named[name] for name in free if named[name] not in used and name not in ("", "unnamed:_0"))
    return Roles(key, (content,) if content else features, request, size, time, label, numbered, others)


def plain(name: str) -> str:
    """`Batch Size` → `batch_size`."""
    return re.sub(r"[\s-]+", "_", name.strip().lower())


def split(name: str) -> tuple[str, int | None]:
    """`logit_3` → (`logit`, 3); the number is None where there is none."""
    found = _NUMBERED.fullmatch(name)
    return (found[1], int(found[2])) if found else (name, None)


def kind_named(names: Iterable[str]) -> ScoreKind | None:
    """What the names of the score columns say that they are."""
    for name in names:
        for word, kind in _KINDS:
            if plain(name).startswith(word):
                return kind
    return None


def _numbered(named: dict[str, str], free: dict[str, tuple[str, int | None]]) -> tuple[tuple[str, int], ...]:
    """Columns of the most frequent prefix among names that end in a number; usual names of scores come first."""
    groups: dict[str, list[tuple[str, int]]] = {}
    for name, (prefix, number) in free.items():
        if number is not None:
            groups.setdefault(prefix, []).append((named[name], number))
    if not groups:
        return ()
    best = max(groups, key=lambda prefix: (prefix in _SCORES, prefix == "", len(groups[prefix])))
    return tuple(groups[best])


def _first(named: dict[str, str], wanted: Iterable[str]) -> str | None:
    return next((named[name] for name in wanted if name in named), None)
