"""How a folded convolution stands to the one before folding: a gain for each channel, and what no gain explains."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bnaudit.comparison import LinearLayer
from bnaudit.folding.permutation import row_order
from bnaudit.folding.rounding import Rounding, rounding
from bnaudit.folding.rows import Form, bias, by_input, by_output, forms, grouped, sizes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

SAME_DIRECTION = 0.3
"""A convolution that was trained on still points about where it did; another one is at right angles (1)."""
_PARALLEL = 1e-4
"""No other way to read the weights is tried."""
_LAST_BITS = 2.0**-22
"""Relative; two steps of float32."""


class Mixing(NamedTuple):
    """How a shift of the input channels reaches the outputs, for a norm that stands before the layer."""

    sums: Array
    """Sum of the weights over the taps, (groups, out ÷ groups, in ÷ groups)."""
    sizes: Array
    """The same of their absolute values."""

    def outputs(self, shift: Array) -> Array:
        """What a shift per input channel adds to each output."""
        return _mixed(self.sums, shift)

    def bound(self, shift: Array) -> Array:
        """What rounding of that sum is relative to."""
        return _mixed(self.sizes, abs(shift))


class Weighed(NamedTuple):
    """A pair of layers, measured: W' ≈ gain · W channel by channel. Only vectors are kept."""

    own: LinearLayer
    other: LinearLayer
    form: Form
    gain: Array
    """⟨W', W⟩ ÷ ⟨W, W⟩ per channel; 0 where W is 0."""
    stray: Array
    """‖W' − gain · W‖ per channel."""
    size: Array
    """‖W‖ per channel."""
    folded_size: Array
    """‖W'‖ per channel."""
    entries: int
    """Weights of one channel."""
    bias: Array
    folded_bias: Array
    rounding: Rounding
    mixing: Mixing | None
    """None: the norm stands behind the layer."""

    @property
    def live(self) -> NDArray[np.bool_]:
        """Channels whose weights are not all 0 on both sides."""
        found: NDArray[np.bool_] = (self.size > 0) & (self.folded_size > 0)
        return found

    @property
    def turned(self) -> float:
        """Median of stray ÷ ‖W'‖ over the live channels: 0 for multiples of what they were, 1 at right angles.

        1 without a live channel.
        """
        import numpy as np

        live = self.live
        with np.errstate(all="ignore"):  # what is not finite
            return float(np.median(self.stray[live] / self.folded_size[live])) if live.any() else 1.0

    @property
    def unchanged(self) -> bool:
        """Whether weights and bias are what they were, but for the last bits of float32."""
        import numpy as np

        live = self.size > 0
        with np.errstate(all="ignore"):  # what is not finite
            same_weights = bool((self.stray <= _LAST_BITS * self.folded_size).all())
            same_weights = same_weights and bool((abs(self.gain[live] - 1.0) <= _LAST_BITS).all())
            return same_weights and bool((abs(self.bias - self.folded_bias) <= _LAST_BITS * abs(self.bias)).all())


def weigh(own: LinearLayer, other: LinearLayer, channels: int, *, before: bool = False) -> Weighed | None:
    """Read both layers and measure them; of two ways to read them the one whose channels point the same way.

    None when they do not have so many channels or their sizes differ. Raises UnreadableError.
    """
    found = []
    if sizes(own) != sizes(other):
        return None
    for form in forms(own, other, channels, before=before):
        weighed = _weigh(own, other, form, before)
        if weighed is not None and weighed.turned < _PARALLEL:
            return weighed
        found.append(weighed)
    return min((each for each in found if each is not None), key=lambda each: each.turned, default=None)


def weigh_reordered(own: LinearLayer, other: LinearLayer, channels: int) -> Weighed | None:
    """The way to read both layers in which their channels are the same ones in another order; None: there is none.

    Raises UnreadableError.
    """
    read = (_weigh(own, other, form, False) for form in forms(own, other, channels))
    return next((each for each in read if each is not None and row_order(*rows_of(each)) is not None), None)


def rows_of(weighed: Weighed) -> tuple[Array, Array]:
    """The rows that were compared, read once more: (channels, taps) of both. Raises UnreadableError."""
    rows = by_output if weighed.mixing is None else by_input
    return rows(grouped(weighed.own, weighed.form)), rows(grouped(weighed.other, weighed.form))


def _weigh(own: LinearLayer, other: LinearLayer, form: Form, before: bool) -> Weighed | None:
    import numpy as np

    weight, folded = grouped(own, form), grouped(other, form)
    if weight.shape != folded.shape or not weight.size:
        return None
    outputs = weight.shape[0] * weight.shape[1]
    biases = bias(own, outputs), bias(other, outputs)
    if biases[0] is None or biases[1] is None:
        return None
    mixing = Mixing(weight.sum(axis=3), abs(weight).sum(axis=3)) if before else None
    rows = by_input if before else by_output
    with np.errstate(all="ignore"):
        gain, stray, size, folded_size = _compare(rows(weight), rows(folded))
    stored = (own.weight, own.bias, other.weight, other.bias)
    return Weighed(
        own=own,
        other=other,
        form=form,
        gain=gain,
        stray=stray,
        size=size,
        folded_size=folded_size,
        entries=weight.size // gain.size,
        bias=biases[0],
        folded_bias=biases[1],
        rounding=rounding(each.dtype for each in stored if each is not None),
        mixing=mixing,
    )


def _compare(weight: Array, folded: Array) -> tuple[Array, Array, Array, Array]:
    """Squares of what float32 holds are above 1e-90: nothing is lost before it is 0 in the file."""
    import numpy as np

    square = np.einsum("ij,ij->i", weight, weight)
    gain = np.where(square > 0, np.einsum("ij,ij->i", weight, folded) / np.where(square > 0, square, 1.0), 0.0)
    rest = weight * gain[:, None]
    rest -= folded
    stray = np.sqrt(np.einsum("ij,ij->i", rest, rest))
    return gain, stray, np.sqrt(square), np.sqrt(np.einsum("ij,ij->i", folded, folded))


def _mixed(matrix: Array, shift: Array) -> Array:
    import numpy as np

    mixed: Array = np.einsum("goi,gi->go", matrix, shift.reshape(matrix.shape[0], -1)).reshape(-1)
    return mixed
