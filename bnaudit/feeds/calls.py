"""How a batch becomes the model's call: which arrays are inputs and which are targets, by position or by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from bnaudit.description import Carrier, GraphInput
from bnaudit.errors import UsageError
from bnaudit.feeds.trees import is_array
from bnaudit.session import Session

TARGETS = frozenset(
    ("y", "target", "targets", "label", "labels", "classes", "class_labels", "gt", "ground_truth", "y_train", "y_test")
)
"""Names that targets have in files and batches of data."""
_INPUTS = frozenset(
    (
        "x",
        "input",
        "inputs",
        "image",
        "images",
        "data",
        "img",
        "imgs",
        "features",
        "pixel_values",
        "input_ids",
        "x_test",
    )
)


class Call(NamedTuple):
    """A way to call the model with a batch."""

    arguments: Callable[[Any], tuple[tuple[Any, ...], dict[str, Any]]]
    remarks: tuple[str, ...] = ()


def calls(batch: Any, session: Session, whence: str, from_file: bool) -> Iterator[Call]:
    """Ways to call the model with batches like this one, likeliest first; at least one.

    Raises UsageError when arrays have names that tell nothing.
    """
    if isinstance(batch, Mapping):
        yield from _of_mapping(batch, session, whence, from_file)
    elif isinstance(batch, (tuple, list)) and len(batch) > 0:
        yield from _of_sequence(batch, session, whence, from_file)
    else:
        yield Call(lambda whole: ((whole,), {}))


def taken(session: Session) -> int | None:
    """How many inputs the model takes, as far as it says."""
    return len(session.signatures[0]) if session.signatures else None


def _of_sequence(batch: Any, session: Session, whence: str, from_file: bool) -> Iterator[Call]:
    kept = _without_targets(batch, taken(session))
    remarks = () if kept == len(batch) else (f"{whence}: the last of {len(batch)} arrays is left out as targets",)
    if kept == 1 and (isinstance(batch[0], Mapping) or _is_several(batch[0])):
        for call in calls(batch[0], session, whence, from_file):
            yield Call(_first_then(call.arguments), remarks + call.remarks)
        return
    yield Call(lambda whole: (tuple(whole)[:kept], {}), remarks)
    if kept < len(batch) and _may_take_more(session):
        yield Call(lambda whole: (tuple(whole), {}))


def _may_take_more(session: Session) -> bool:
    """Whether the number of inputs is a guess: that of a forward(*args) is 1, named as that of nn.Sequential is."""
    names = [declared.name for declared in session.signatures[0]] if session.signatures else []
    return session.carrier is Carrier.MODULE and names in ([], ["input"])


def _is_several(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and len(value) > 0


def _first_then(arguments: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda whole: arguments(whole[0])


def _without_targets(batch: Any, inputs: int | None) -> int:
    """How many of the arrays are inputs: all, or all but the last."""
    count = len(batch)
    first, last = batch[0], batch[-1]
    nested = (isinstance(first, Mapping) or _is_several(first)) and count == 2
    if count < 2 or not (nested or inputs is None or count == inputs + 1):
        return count
    if nested or inputs is not None:
        return count - 1
    return count - 1 if count == 2 and _look_like_labels(last, first) else count


def _look_like_labels(last: Any, first: Any) -> bool:
    shape, of = getattr(last, "shape", None), getattr(first, "shape", None)
    return shape is not None and of is not None and len(shape) == 1 and len(of) > 1 and shape[0] == of[0]


def _of_mapping(batch: Mapping[Any, Any], session: Session, whence: str, from_file: bool) -> Iterator[Call]:
    best = max(session.signatures, key=lambda signature: len(_named(signature, batch)), default=())
    matched = _named(best, batch)
    if matched:
        extra = [] if from_file or session.carrier is not Carrier.MODULE else _further(batch, matched)
        yield _by_name(best, [*matched, *extra], batch, session, whence)
        return
    several = (taken(session) or 1) > 1
    if from_file or session.carrier is Carrier.GRAPH or several:
        yield _fitting(batch, session, whence) if several else _only(_chosen(batch, session, whence), batch, whence)
        return
    yield from _guessed(batch, session, whence)


def _guessed(batch: Mapping[Any, Any], session: Session, whence: str) -> Iterator[Call]:
    """A dict for a model whose parameters have other names: as keywords, as one dict, or one array of it."""
    names = [key for key in batch if isinstance(key, str) and key.lower() not in TARGETS]
    yield Call(lambda whole: ((), {name: whole[name] for name in names}), _left_out(batch, names, whence))
    yield Call(lambda whole: ((dict(whole),), {}))
    try:
        yield _only(_chosen(batch, session, whence), batch, whence)
    except UsageError:
        return


def _named(signature: tuple[GraphInput, ...], batch: Mapping[Any, Any]) -> list[str]:
    return [declared.name for declared in signature if declared.name in batch]


def _further(batch: Mapping[Any, Any], matched: list[str]) -> list[str]:
    """Entries of a loader's batch that a module takes as optional parameters, presumably."""
    return [key for key in batch if isinstance(key, str) and key not in matched and key.lower() not in TARGETS]


def _by_name(
    signature: tuple[GraphInput, ...], names: list[str], batch: Mapping[Any, Any], session: Session, whence: str
) -> Call:
    order = [declared.name for declared in signature]
    missing = [name for name in order if name not in batch]
    if missing and session.carrier is Carrier.GRAPH:
        raise UsageError(
            f"the graph also takes {', '.join(missing)}", where=whence, remedy=f"give all of {', '.join(order)}"
        )
    by_keyword = set() if session.sample is None else set(session.sample.kwargs)
    positional: list[str] = []
    if session.carrier is not Carrier.MODULE:
        for name in order:
            if name not in batch or name in by_keyword:
                break
            positional.append(name)
    keywords = [name for name in names if name not in positional]
    return Call(
        lambda whole: (tuple(whole[name] for name in positional), {name: whole[name] for name in keywords}),
        _left_out(batch, names, whence),
    )


def _left_out(batch: Mapping[Any, Any], used: list[str], whence: str) -> tuple[str, ...]:
    others = [str(key) for key in batch if key not in used]
    return (f"{whence}: {', '.join(others)} left out",) if others else ()


def _only(name: Any, batch: Mapping[Any, Any], whence: str) -> Call:
    others = ", ".join(str(key) for key in batch if key != name)
    remarks = (f"{whence}: {name} is taken as the input, {others} left out",) if others else ()
    return Call(lambda whole: ((whole[name],), {}), remarks)


def _chosen(batch: Mapping[Any, Any], session: Session, whence: str) -> Any:
    """The key of the one array that is an input. Raises UsageError when several could be."""
    numeric = [key for key, value in batch.items() if is_array(value) and _is_numeric(value)]
    remaining = numeric
    for keep in (_is_no_target(batch), _is_taken(batch, session), lambda key: str(key).lower() in _INPUTS):
        if len(remaining) == 1:
            return remaining[0]
        remaining = [key for key in remaining if keep(key)] or remaining
    if len(remaining) == 1:
        return remaining[0]
    raise UsageError(
        f"which of {', '.join(map(str, batch))} the model takes is not clear", where=whence, remedy=_naming(session)
    )


def _naming(session: Session) -> str:
    names = ", ".join(declared.name for declared in session.signatures[0]) if session.signatures else ""
    return f"name arrays as the model's inputs: {names}" if names else "give a file with the input alone"


def _is_no_target(batch: Mapping[Any, Any]) -> Callable[[Any], bool]:
    return lambda key: str(key).lower() not in TARGETS and len(batch[key].shape) > 1


def _is_taken(batch: Mapping[Any, Any], session: Session) -> Callable[[Any], bool]:
    first = [signature[0] for signature in session.signatures if len(signature) == 1]
    return lambda key: any(fits(batch[key], declared) for declared in first)


def _is_numeric(value: Any) -> bool:
    return not isinstance(value, np.ndarray) or value.dtype.kind in "biufc"


def fits(array: Any, declared: GraphInput) -> bool:
    """Whether rank and fixed sizes (but for the first axis, which is the batch) are what the model declares."""
    if declared.shape is None:
        return True
    if len(declared.shape) != len(array.shape):
        return False
    pairs = list(zip(array.shape, declared.shape, strict=True))[1:]
    return all(not isinstance(size, int) or size == given for given, size in pairs)


def _fitting(batch: Mapping[Any, Any], session: Session, whence: str) -> Call:
    """Several inputs, none under its name: each the only array that fits. Raises UsageError when that is not so."""
    signature, order = session.signatures[0], []
    for declared in signature:
        fitting = [k for k, v in batch.items() if k not in order and is_array(v) and fits(v, declared)]
        if len(fitting) != 1:
            names = ", ".join(declared.name for declared in signature)
            raise UsageError(
                f"none of {', '.join(map(str, batch))} is named as an input of the model",
                where=whence,
                remedy=f"name the arrays {names}",
            )
        order.append(fitting[0])
    return Call(lambda whole: (tuple(whole[key] for key in order), {}), _left_out(batch, order, whence))
