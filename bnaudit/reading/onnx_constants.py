"""Values that are the same whatever the inputs are, worked out with NumPy: small ones, and within bounds.

Arithmetic is done in the type that the graph says, so that the result is the one a runtime sees; bfloat16 is held as
float32 and rounded after every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from bnaudit.errors import UnreadableError
from bnaudit.reading.onnx_dependence import Dependence
from bnaudit.reading.onnx_dtypes import DTYPES, round_to_bfloat16
from bnaudit.reading.onnx_numpy_ops import OPERATORS, TYPED_OPERATORS
from bnaudit.reading.onnx_numpy_types import MOST_VALUES, Constant, as_type
from bnaudit.reading.onnx_scope import Site, Value, stored_tensor

MOST_WORK = 1 << 27
"""Elements of all evaluated constants of one file."""


class UnevaluableError(Exception):
    """A value that is not worked out: `str(error)` says why, as the end of a sentence."""


class Constants:
    """Evaluates values; each once."""

    def __init__(self, dependence: Dependence) -> None:
        self._dependence = dependence
        self._known: dict[Value, Constant | UnevaluableError] = {}
        self._work = MOST_WORK

    def evaluate(self, value: Value) -> Constant:
        """The constant. Raises UnevaluableError when it depends on an input, or is too large, or not worked out."""
        opened: set[Value] = set()
        stack = [value]
        while stack:
            current = stack[-1]
            fresh = [] if current in self._known else [need for need in self._needs(current) if need not in opened]
            opened.add(current)
            if fresh and current not in self._known:
                stack += fresh
                continue
            if current not in self._known:
                self._known[current] = self._attempt(current)
            stack.pop()
        found = self._known[value]
        if isinstance(found, UnevaluableError):
            raise found
        return found

    def integers(self, value: Value | None) -> list[int] | None:
        """The numbers of a small integer constant, None when it is not one."""
        if value is None:
            return None
        try:
            array = self.evaluate(value).array
        except UnevaluableError:
            return None
        return [int(number) for number in array.reshape(-1)] if array.dtype.kind in "iub" else None

    def scalar(self, value: Value | None) -> float | None:
        """The one number of a constant with one element, None when it is not one."""
        if value is None:
            return None
        try:
            array = self.evaluate(value).array
        except UnevaluableError:
            return None
        return float(array.reshape(-1)[0]) if array.size == 1 and array.dtype.kind in "fiub" else None

    def _needs(self, value: Value) -> list[Value]:
        """What has to be known before the value and is not yet."""
        site = value.site
        if site is None or not self._dependence.is_constant(value):
            return []
        if _sizes(site) is not None:
            return []
        needs = site.inputs[:1] if site.operator == "CastLike" else site.inputs
        if site.operator == "If" and needs and needs[0] in self._known:
            branch = self._branch(site, value)
            needs = [] if branch is None else [branch]
        return [need for need in needs if need not in self._known]

    def _attempt(self, value: Value) -> Constant | UnevaluableError:
        import numpy as np

        try:
            with np.errstate(all="ignore"):
                found = self._compute(value)
            self._charge(found.array.size, value)
            return found
        except UnevaluableError as error:
            return error
        except UnreadableError as error:
            return UnevaluableError(str(error))
        except (ValueError, TypeError, IndexError, KeyError, ArithmeticError, MemoryError) as error:
            return UnevaluableError(f"{value.name} does not fit together ({type(error).__name__})")

    def _compute(self, value: Value) -> Constant:
        import numpy as np

        if value.tensor is not None:
            return self._load(value)
        site = value.site
        if site is None or not self._dependence.is_constant(value):
            raise UnevaluableError(f"{value.name} depends on an input")
        if site.operator == "If":
            branch = self._branch(site, value)
            if branch is None:
                raise UnevaluableError(f"{site.label} has no such result")
            return self._argument(branch)
        sizes = _sizes(site)
        if sizes is not None:
            return Constant(np.array(sizes, np.int64), "int64")
        return self._apply(site, value)

    def _load(self, value: Value) -> Constant:
        tensor = value.tensor
        assert tensor is not None
        count = 1
        for size in tensor.shape:
            count *= size
        self._charge(count, value)
        return Constant(tensor.native(), tensor.dtype)

    def _apply(self, site: Site, value: Value) -> Constant:
        names = site.node.inputs
        if site.operator == "CastLike":
            return as_type(self._argument(site.inputs[0]), _dtype(site.inputs[1]) or "")
        arguments = [self._argument(found) if (found := site.input(i)) else None for i in range(len(names))]
        typed = TYPED_OPERATORS.get(site.operator)
        if typed is not None:
            return Constant(*typed(site, arguments))
        operator = OPERATORS.get(site.operator)
        if operator is None:
            raise UnevaluableError(f"{site.label} is a {site.operator}, which is not worked out")
        result = operator(site, [argument and argument.array for argument in arguments])
        array = result[value.index] if isinstance(result, list) else result
        if array.dtype == "float32" and any(argument and argument.dtype == "bfloat16" for argument in arguments):
            return Constant(round_to_bfloat16(array).reshape(array.shape), "bfloat16")
        return Constant(array, str(array.dtype))

    def _argument(self, value: Value) -> Constant:
        found = self._known.get(value) or UnevaluableError(f"{value.name} is computed from itself")
        if isinstance(found, UnevaluableError):
            raise found
        return found

    def _branch(self, site: Site, value: Value) -> Value | None:
        """The value that an If with a known condition hands on."""
        condition = site.input(0)
        if condition is None:
            return None
        taken = bool(self._argument(condition).array.reshape(-1)[0])
        body = site.bodies.get("then_branch" if taken else "else_branch")
        if body is None or value.index >= len(body.body.outputs):
            return None
        return body.value(body.body.outputs[value.index])

    def _charge(self, count: int, value: Value) -> None:
        if count > MOST_VALUES:
            raise UnevaluableError(f"{value.name} has {count} values, too many to work out")
        self._work -= max(count, 1)
        if self._work < 0:
            raise UnevaluableError("the constants of this file are too many to work out")


def _sizes(site: Site) -> int | list[int] | None:
    """What Shape, Size or a Gather of one size of a Shape gives, when the file fixes the sizes it asks for."""
    if site.operator == "Gather":
        shape, index = site.input(0), site.input(1)
        inner = shape.origin().site if shape is not None else None
        position = _small_integer(index)
        sizes = _known_sizes(inner) if inner is not None and inner.operator == "Shape" else None
        if sizes is None or position is None or not -len(sizes) <= position < len(sizes):
            return None
        return sizes[position]
    if site.operator not in ("Shape", "Size"):
        return None
    known = _known_sizes(site)
    if known is None or None in known:
        return None
    fixed = [size for size in known if size is not None]
    return fixed if site.operator == "Shape" else prod(fixed)


def _known_sizes(site: Site) -> list[int | None] | None:
    """The sizes that a Shape node looks at, None for a free one; None in all when the file does not state the rank."""
    value = site.input(0)
    shape: Sequence[int | str | None] | None = None
    if value is not None and value.tensor is not None:
        shape = value.tensor.shape
    elif value is not None and value.info is not None:
        shape = value.info.shape
    if shape is None:
        return None
    seen = shape[site.integer("start", 0) : site.integer("end", len(shape))] if site.operator == "Shape" else shape
    return [size if isinstance(size, int) else None for size in seen]


def _small_integer(value: Value | None) -> int | None:
    """A scalar index, from a Constant node or an initializer."""
    if value is None:
        return None
    tensor = stored_tensor(value)
    try:
        number = tensor.native() if tensor is not None and tensor.shape == () else None
    except UnreadableError:
        return None
    if number is not None and number.dtype.kind == "i":
        return int(number)
    site = value.origin().site
    attribute = site.attribute("value_int") if site is not None and site.operator == "Constant" else None
    return attribute.i if attribute is not None else None


def _dtype(value: Value) -> str | None:
    """The element type of a value, as the file states it for the value or for what it was computed from."""
    current: Value | None = value
    for _ in range(100):
        if current is None:
            return None
        if current.tensor is not None:
            return current.tensor.dtype
        if current.info is not None and current.info.dtype in DTYPES.values():
            return current.info.dtype
        site = current.site
        if site is None:
            return None
        target = site.attribute("to") if site.operator == "Cast" else None
        if target is not None:
            return DTYPES.get(target.i or 0)
        current = site.input(1 if site.operator == "CastLike" else 0)
    return None
