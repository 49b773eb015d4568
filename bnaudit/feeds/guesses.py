"""Sizes for the dimensions that a model leaves free: which are tried, and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from bnaudit.description import GraphInput
from bnaudit.errors import UsageError
from bnaudit.feeds.axes import batch_dimension
from bnaudit.records import replace

_IMAGE = (64, 224, 32, 28, 16, 8, 128, 256, 299, 512)
"""Heights and widths. 64 first: a twelfth of the work of 224, and most networks take it; those with a fixed size take
224 (ImageNet), 32 (CIFAR) or 28 (MNIST) as a rule; 299 is Inception's, and what is slow comes last."""
_TIME = (32, 16, 64, 512, 128, 8, 16000, 256, 1000, 4)
"""Steps of a sequence."""
_AUDIO = (512, 16000, 4096, 1024, 256, 400, 8000, 32000, 48000, 128)
"""Samples of sound: a frame, a second, and others."""
_VIDEO = (8, 16, 4, 32, 8, 8, 8, 8, 2, 1)
_CHANNELS = (3, 3, 3, 1, 1, 1, 3, 3, 3, 3)
_FEATURES = (32, 16, 64, 512, 128, 8, 10, 256, 784, 4)
_SIZES = {
    "height": _IMAGE,
    "width": _IMAGE,
    "depth": _VIDEO,
    "channels": _CHANNELS,
    "features": _FEATURES,
    "samples": _AUDIO,
}
_SHAPES: tuple[tuple[str, tuple[int | str | None, ...]], ...] = (
    ("float32", (None, None, None, None)),
    ("float32", (None, 1, None, None)),
    ("float32", (None, None)),
    ("int64", (None, None)),
    ("float32", (None, None, None)),
)
"""What an input may be of which the model says nothing."""
_SOUND = ("sr", "sample_rate", "sampling_rate", "audio", "wav", "waveform", "audio_signal")
"""Names of inputs of models that listen."""
VOCABULARY = 10
"""Token ids are below it: tables of embeddings are rarely smaller, and a second try takes 2."""


class Guess(NamedTuple):
    """One way to fill a signature: a size for every free dimension."""

    signature: tuple[GraphInput, ...]
    sizes: Mapping[str, int]
    """Free dimension (by name, or by its role where it has none) → size."""
    assumed: tuple[str, ...]
    """Those that the user did not give."""
    vocabulary: int = VOCABULARY


def guesses(
    signatures: tuple[tuple[GraphInput, ...], ...],
    given: Mapping[str, int],
    limits: Mapping[str, tuple[int, int | None]],
    most: int,
    fixed: int | None = None,
) -> list[Guess]:
    """At most `most` guesses, likely signatures with likely sizes first, each different.

    Raises UsageError when `given` names a dimension that no signature has.
    """
    declared = dict.fromkeys(variant for signature in signatures or _ANY for variant in _variants(signature))
    signatures = tuple(dict.fromkeys((*declared, *_crossed(tuple(declared)))))
    _check_names(signatures, given, fixed)
    ranked: list[tuple[int, Guess]] = []
    for place, signature in enumerate(signatures):
        for step, guess in enumerate(_of_signature(signature, given, limits, fixed)):
            ranked.append((2 * place + step, guess))
    return [guess for _, guess in sorted(ranked, key=lambda entry: entry[0])][:most]


_ANY = ((GraphInput(name="input", dtype="unknown", shape=None),),)


def _variants(signature: tuple[GraphInput, ...]) -> Iterator[tuple[GraphInput, ...]]:
    """The signature with every shape known: sound where names say so, and several where a shape is not declared."""
    first = next((index for index, declared in enumerate(signature) if declared.shape != ()), None)
    if first is None:
        yield signature
        return
    declared = signature[first]
    if any(each.name.lower() in _SOUND for each in signature) and not _is_declared(declared):
        yield _known(signature, first, "float32", (None, "samples"))
    if declared.shape is not None:
        yield _known(signature, first, declared.dtype, declared.shape)
        return
    for dtype, shape in _SHAPES:
        if declared.dtype == "unknown" or ("int" in declared.dtype) == ("int" in dtype):
            yield _known(signature, first, dtype if declared.dtype == "unknown" else declared.dtype, shape)


def _crossed(signatures: tuple[tuple[GraphInput, ...], ...]) -> Iterator[tuple[GraphInput, ...]]:
    """Two inputs, each of another guess: a module's first layers may each belong to one of them."""
    for one in signatures:
        for other in signatures:
            if len(one) == len(other) == 2 and one != other:
                yield (one[0], other[1])


def with_axis(signatures: tuple[tuple[GraphInput, ...], ...], axis: int | None) -> tuple[tuple[GraphInput, ...], ...]:
    """The signatures with the batch on this axis, where a guess has it on another: (N, T, C) becomes (T, N, C)."""
    if axis is None:
        return signatures
    return tuple(tuple(_moved(declared, axis) for declared in signature) for signature in signatures)


def _moved(declared: GraphInput, axis: int) -> GraphInput:
    shape = list(declared.shape or ())
    batch = batch_dimension(tuple(shape))
    if batch is None or axis >= len(shape) or isinstance(shape[axis], int):
        return declared
    shape[batch], shape[axis] = shape[axis], shape[batch] or "batch"
    return replace(declared, shape=tuple(shape))


def _is_declared(declared: GraphInput) -> bool:
    """Whether all sizes but the first are numbers."""
    return declared.shape is not None and all(isinstance(size, int) for size in declared.shape[1:])


def _known(
    signature: tuple[GraphInput, ...], first: int, dtype: str, shape: tuple[int | str | None, ...]
) -> tuple[GraphInput, ...]:
    """With this first input; others of unknown shape are taken for its like."""
    changed = [each if each.shape is not None else replace(each, shape=shape) for each in signature]
    changed[first] = replace(signature[first], dtype=dtype, shape=shape)
    return tuple(changed)


def _of_signature(
    signature: tuple[GraphInput, ...],
    given: Mapping[str, int],
    limits: Mapping[str, tuple[int, int | None]],
    fixed: int | None,
) -> Iterator[Guess]:
    roles = _roles(signature, fixed)
    assumed = tuple(name for name in roles if name not in given)
    seen: list[dict[str, int]] = []
    for index in range(len(_IMAGE)):
        sizes = {
            name: given.get(name, _limited(_size(name if name in _SIZES else role, index), limits.get(name)))
            for name, role in roles.items()
        }
        if sizes not in seen:
            seen.append(sizes)
            yield Guess(signature, sizes, assumed)
    if seen and any("int" in declared.dtype for declared in signature):
        yield Guess(signature, seen[0], assumed, vocabulary=2)


def _check_names(signatures: tuple[tuple[GraphInput, ...], ...], given: Mapping[str, int], fixed: int | None) -> None:
    known = {
        name for signature in signatures for declared in signature for name in free_dimensions(declared, fixed).values()
    }
    known |= {name for signature in signatures for declared in signature if (name := batch_name(declared))}
    for name in given:
        if name not in known:
            free = ", ".join(sorted(known)) or "none"
            raise UsageError(f"the model has no free dimension {name!r}", remedy=f"its free dimensions are {free}")


def batch_name(declared: GraphInput) -> str | None:
    """The name of the free dimension that is the batch (`batch` without one); None: the batch is fixed."""
    axis = batch_dimension(declared.shape or ())
    if axis is None or declared.shape is None:
        return None
    return _named(declared.shape[axis]) or "batch"


def _roles(signature: tuple[GraphInput, ...], fixed: int | None) -> dict[str, str]:
    """Every free dimension and its role, without the batch."""
    found: dict[str, str] = {}
    for declared in signature:
        for axis, name in free_dimensions(declared, fixed).items():
            found.setdefault(name, _role(declared, axis))
    return found


def free_dimensions(declared: GraphInput, fixed: int | None) -> dict[int, str]:
    """Axis → name of the free dimensions without the batch; one without a name is called by its role."""
    shape = declared.shape or ()
    batch = batch_dimension(shape, fixed)
    free = [axis for axis, size in enumerate(shape) if not isinstance(size, int) and axis != batch]
    return {axis: _named(shape[axis]) or _role(declared, axis) for axis in free}


def _named(size: int | str | None) -> str:
    """The name of a free dimension; some exporters write `?` for all that have none."""
    return size if isinstance(size, str) and any(map(str.isalnum, size)) else ""


def _role(declared: GraphInput, axis: int) -> str:
    shape = declared.shape or ()
    rank = len(shape)
    if rank >= 4:
        last = isinstance(shape[-1], int) and shape[-1] <= 4 and not isinstance(shape[1], int)
        roles = ["depth", "height", "width"][-(rank - 2) :]
        order = ["batch", *roles, "channels"] if last else ["batch", "channels", *roles]
        return order[axis] if axis < len(order) else "length"
    if rank == 3:
        return "features" if axis == 2 and not isinstance(shape[1], int) else "length"
    return "length" if "int" in declared.dtype or rank < 2 else "features"


def _size(role: str, index: int) -> int:
    return _SIZES.get(role, _TIME)[index]


def _limited(size: int, limits: tuple[int, int | None] | None) -> int:
    if limits is None:
        return size
    smallest, largest = limits
    return max(smallest, size if largest is None else min(size, largest))
