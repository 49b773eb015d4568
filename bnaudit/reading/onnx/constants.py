"""Values that are the same whatever the inputs are, worked out with NumPy: small ones, and within bounds.

Arithmetic is done in the type that the graph says, so that the result is the one a runtime sees; bfloat16 is held as
float32 and rounded after every step.
"""

from __future__ import annotations

from math import prod

from bnaudit.errors import UnreadableError
from bnaudit.reading.onnx.declared import OPEN, declared_dtype, fixed_sizes, open_shape
from bnaudit.reading.onnx.dependence import Dependence
from bnaudit.reading.onnx.dtypes import round_to_bfloat16
from bnaudit.reading.onnx.numpy_ops import OPERATORS, TYPED_OPERATORS
from bnaudit.reading.onnx.numpy_types import MOST_VALUES, Constant, as_type
from bnaudit.reading.onnx.scope import Site, Value

MOST_WORK = 1 << 27
"""Elements of all evaluated constants of one file."""


_PICKING = ("Gather", "Slice")


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
        needs = site.inputs
        if site.operator == "CastLike":
            needs = needs[:1]
        elif site.operator in ("Shape", "Size") and fixed_sizes(site) is not None:
            needs = []
        elif site.operator in _PICKING and open_shape(site) is not None:
            needs = needs[1:]
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
        if site.operator in ("Shape", "Size"):
            return self._shape(site)
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
            return as_type(self._argument(site.inputs[0]), declared_dtype(site.inputs[1]) or "")
        free = open_shape(site) if site.operator in _PICKING else None
        first = 0 if free is None else 1
        arguments = [self._argument(found) if (found := site.input(i)) else None for i in range(first, len(names))]
        if free is not None:
            arguments.insert(0, free)
        typed = TYPED_OPERATORS.get(site.operator)
        if typed is not None:
            return Constant(*typed(site, arguments))
        operator = OPERATORS.get(site.operator)
        if operator is None:
            raise UnevaluableError(f"{site.label} is a {site.operator}, which is not worked out")
        result = operator(site, [argument and argument.array for argument in arguments])
        array = result[value.index] if isinstance(result, list) else result
        if free is not None and (array == OPEN).any():
            raise UnevaluableError(f"{value.name} is a size that the file leaves open")
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

    def _shape(self, site: Site) -> Constant:
        import numpy as np

        sizes = fixed_sizes(site)
        if sizes is None:
            sizes = list(self._argument(site.inputs[0]).array.shape)
            if site.operator == "Shape":
                sizes = sizes[site.integer("start", 0) : site.integer("end", len(sizes))]
        return Constant(np.array(sizes if site.operator == "Shape" else prod(sizes), np.int64), "int64")

    def _charge(self, count: int, value: Value) -> None:
        if count > MOST_VALUES:
            raise UnevaluableError(f"{value.name} has {count} values, too many to work out")
        self._work -= max(count, 1)
        if self._work < 0:
            raise UnevaluableError("the constants of this file are too many to work out")
