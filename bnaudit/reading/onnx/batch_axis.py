"""Where an axis of an inner value comes from: is it the batch axis of something that the model is given?

The answer is yes only when every step back is understood. A view that folds the batch into the channels, as the
decomposition of instance norm makes (1, N·C, …), ends the walk, and so does anything unknown.
"""

from __future__ import annotations

from collections.abc import Callable

from bnaudit.reading.onnx.constants import Constants
from bnaudit.reading.onnx.dependence import Dependence
from bnaudit.reading.onnx.scope import Site, Value

_MOST_STEPS = 100_000

_POINTWISE_NAMES = """
    Abs Add And BatchNormalization Bernoulli Cast CastLike Ceil Celu Clip Concat Cos DequantizeLinear Div Dropout Elu
    Equal Erf Exp Expand Floor Gelu Greater HardSigmoid HardSwish Hardmax Identity LRN LayerNormalization LeakyRelu
    Less Log LogSoftmax LpNormalization Max Mean MeanVarianceNormalization Min Mish Mod Mul Neg Not Or PRelu Pad Pow
    QuantizeLinear RMSNormalization Reciprocal Relu Resize Round Selu Shrink Sigmoid Sign Sin Slice Softmax Softplus
    Softsign Split Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Trilu Upsample Where Xor SimplifiedLayerNormalization
    com.microsoft.FastGelu com.microsoft.Gelu com.microsoft.QuickGelu com.microsoft.BiasGelu
    com.microsoft.SkipLayerNormalization com.microsoft.SkipSimplifiedLayerNormalization
"""
_SAMPLEWISE_NAMES = """
    AveragePool Conv ConvInteger ConvTranspose DeformConv DepthToSpace Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool
    GroupNormalization InstanceNormalization LpPool MatMul MatMulInteger MaxPool QLinearConv QLinearMatMul SpaceToDepth
    com.microsoft.FusedConv com.microsoft.FusedMatMul com.microsoft.GroupNorm
"""
_POINTWISE = frozenset(_POINTWISE_NAMES.split())
"""Every axis of the output is that axis of the input."""
_SAMPLEWISE = frozenset(_SAMPLEWISE_NAMES.split())
"""The first axis of the output is that of the first input; the others mix."""
_RECURRENT = frozenset({"GRU", "LSTM", "RNN"})


class BatchAxes:
    """Traces axes back to the declared inputs."""

    def __init__(self, dependence: Dependence, constants: Constants) -> None:
        self._dependence = dependence
        self._constants = constants
        self._traced: dict[tuple[Value, int], Value | None] = {}
        self._steps: dict[str, Callable[[Site, int], int | None]] = {
            "Transpose": self._transpose,
            "Reshape": self._reshape,
            "Flatten": lambda site, axis: 0 if axis == 0 and site.integer("axis", 1) == 1 else None,
            "Unsqueeze": self._unsqueeze,
            "Squeeze": self._squeeze,
            "Gather": self._gather,
        }

    def is_free_batch(self, value: Value, axis: int) -> bool:
        """Whether `axis` of the value is the first axis of a declared input, and its size is free."""
        source = self._trace(value, axis)
        if source is None or source.info is None:
            return False
        shape = source.info.shape
        return shape is None or (len(shape) > 0 and not isinstance(shape[0], int))

    def is_made_one(self, value: Value) -> bool:
        """Whether a view in the graph made the first axis 1, so that what is reduced over it mixes no samples."""
        site = value.origin().site
        while site is not None and site.operator in ("Cast", "CastLike"):
            before = site.input(0)
            site = before.origin().site if before is not None else None
        if site is None:
            return False
        if site.operator == "Unsqueeze":
            return 0 in (self._axes(site) or [])
        return site.operator == "Reshape" and self._first_size(site) == 1

    def _trace(self, value: Value, axis: int) -> Value | None:
        """The declared input whose first axis this is, None when it is none or not known."""
        passed: list[tuple[Value, int]] = []
        found: Value | None = None
        for _ in range(_MOST_STEPS):
            if (value, axis) in self._traced:
                found = self._traced[value, axis]
                break
            passed.append((value, axis))
            if value.is_model_input:
                found = value if axis == 0 else None
                break
            site = value.site
            before = self._data(site) if site is not None else None
            step = self._step(site, axis, before, value) if site is not None and before is not None else None
            if before is None or step is None:
                break
            value, axis = before, step
        self._traced.update(dict.fromkeys(passed, found))
        return found

    def _data(self, site: Site) -> Value | None:
        """The first operand that depends on the model's inputs."""
        operands = site.inputs
        if site.operator == "Where":
            operands = [*operands[1:], *operands[:1]]
        return next((value for value in operands if not self._dependence.is_constant(value)), None)

    def _step(self, site: Site, axis: int, data: Value, output: Value) -> int | None:
        operator = site.operator
        if operator in _POINTWISE:
            return axis
        if operator in _SAMPLEWISE:
            is_first = data is site.input(0) and not site.integer("transA", 0)
            return 0 if axis == 0 and is_first else None
        if operator in _RECURRENT:
            return self._recurrent(site, axis, output) if data is site.input(0) else None
        if operator.startswith("Reduce"):
            return self._reduce(site, axis)
        step = self._steps.get(operator)
        return step(site, axis) if step is not None else None

    def _recurrent(self, site: Site, axis: int, output: Value) -> int | None:
        """X is (sequence, batch, features), Y (sequence, directions, batch, features), the last states (directions,
        batch, features); with layout 1 the batch comes first in all of them (ONNX operators, RNN, GRU and LSTM)."""
        batch_first = site.integer("layout", 0) == 1
        if output is site.output(0):
            return ({0: 0, 1: 1} if batch_first else {0: 0, 2: 1}).get(axis)
        batch = 0 if batch_first else 1
        return batch if axis == batch else None

    def _transpose(self, site: Site, axis: int) -> int | None:
        permutation = site.integers("perm")
        return permutation[axis] if permutation and axis < len(permutation) else None

    def _reshape(self, site: Site, axis: int) -> int | None:
        """The first axis stays the first when the new first size is the old one, or takes whatever is left over.
        A later one stays where it is when the sizes up to it are the old ones."""
        if axis > 0:
            return axis if self._keeps_axes(site, axis + 1) else None
        return 0 if self._first_size(site) in (0, -1) else None

    def _keeps_axes(self, site: Site, count: int) -> bool:
        """Whether the first sizes that a Reshape asks for, so many of them, are those of the same axes of its data."""
        target, data = site.input(1), site.input(0)
        sizes = site.integers("shape") if target is None else self._constants.integers(target)
        if sizes is not None:
            return sizes[:count] == [0] * count
        joined = target.origin().site if target is not None else None
        if joined is None or data is None or joined.operator != "Concat":
            return False
        parts = joined.inputs[:count]
        return len(parts) == count and all(self._is_size(part, data, axis) for axis, part in enumerate(parts))

    def _is_size(self, part: Value, data: Value, axis: int) -> bool:
        """Whether it is one number, the size of this axis of the data, as exporters read it at run time."""
        site = part.origin().site
        if site is not None and site.operator == "Unsqueeze":
            before = site.input(0)
            site = before.origin().site if before is not None else None
        if site is None or (sizes := site.input(0)) is None:
            return False
        asked = sizes.origin().site
        if asked is None or asked.operator != "Shape" or asked.integer("start", 0) != 0:
            return False
        given = asked.input(0)
        if given is None or given.origin() is not data.origin():
            return False
        if site.operator == "Gather":
            return self._constants.integers(site.input(1)) == [axis]
        bounds = [self._constants.integers(site.input(index)) for index in (1, 2)]
        return site.operator == "Slice" and len(site.node.inputs) == 3 and bounds == [[axis], [axis + 1]]

    def _unsqueeze(self, site: Site, axis: int) -> int | None:
        axes = self._axes(site)
        if axes is None or min(axes, default=0) < 0 or axis in axes:
            return None
        return axis - sum(1 for inserted in axes if inserted < axis)

    def _squeeze(self, site: Site, axis: int) -> int | None:
        axes = self._axes(site)
        if axes is None or min(axes, default=0) < 0:
            return None
        return _reinserted(axis, axes)

    def _reduce(self, site: Site, axis: int) -> int | None:
        axes = self.reduced_axes(site)
        if axes is None or (min(axes, default=0) < 0 and not site.integer("keepdims", 1)):
            return None
        if site.integer("keepdims", 1):
            return None if axis in axes else axis
        return _reinserted(axis, axes)

    def _gather(self, site: Site, axis: int) -> int | None:
        """A look-up in a constant table keeps the axes of the indices; another gather keeps those before its own."""
        table, gathered = site.input(0), site.integer("axis", 0)
        if table is not None and self._dependence.is_constant(table):
            return axis - gathered if axis >= gathered >= 0 else None
        return axis if axis < gathered else None

    def reduced_axes(self, site: Site) -> list[int] | None:
        """The axes of a Reduce node, in an attribute or, in later opsets, an input; [] means all; None: not known."""
        if len(site.node.inputs) > 1 and site.node.inputs[1]:
            return self._constants.integers(site.input(1))
        return site.integers("axes") or []

    def _axes(self, site: Site) -> list[int] | None:
        if len(site.node.inputs) > 1:
            return self._constants.integers(site.input(1))
        return site.integers("axes")

    def _first_size(self, site: Site) -> int | None:
        """The first size that a Reshape asks for: 0 or -1 for "as it was" and "what is left over"; None: not known."""
        target = site.input(1)
        if target is None:
            sizes = site.integers("shape")
            return sizes[0] if sizes else None
        sizes = self._constants.integers(target)
        if sizes is not None:
            return sizes[0] if sizes else None
        return self._first_element(target, site.input(0))

    def _first_element(self, target: Value, data: Value | None) -> int | None:
        """The same for a shape that is put together at run time from constants and sizes of other values."""
        for _ in range(100):
            site = target.origin().site
            before = site.input(0) if site is not None else None
            if site is None or before is None:
                return None
            if site.operator == "Shape":
                return 0 if site.integer("start", 0) == 0 else None
            if site.operator == "Gather" and self._constants.integers(site.input(1)) != [0]:
                return None
            if site.operator == "Slice" and not self._starts_at_zero(site):
                return None
            if site.operator not in ("Concat", "Unsqueeze", "Squeeze", "Cast", "Gather", "Slice", "Reshape"):
                return None
            known = self._constants.integers(before)
            if known is not None and site.operator == "Concat":
                return known[0] if known else None
            target = before
        return None

    def _starts_at_zero(self, site: Site) -> bool:
        starts = self._constants.integers(site.input(1)) if len(site.node.inputs) > 1 else site.integers("starts")
        return starts is not None and starts[:1] == [0]


def _reinserted(axis: int, removed: list[int]) -> int:
    """Where an axis was before some were removed."""
    for position in sorted(removed):
        if position <= axis:
            axis += 1
    return axis
