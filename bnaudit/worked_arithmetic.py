"""The page of `bnaudit explain arithmetic`: the life of one batch norm, every number computed by arithmetic.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bnaudit import arithmetic
from bnaudit.arithmetic import PYTORCH_MOMENTUM, Running
from bnaudit.description import CUMULATIVE, Cumulative

if TYPE_CHECKING:
    from bnaudit.arithmetic import Array

_INTRO = """# The arithmetic of a batch norm

One channel, one layer, from its first training step to production. Every number
on this page is computed by bnaudit's own arithmetic in double precision, with
PyTorch's default epsilon, 1e-5. `gamma` is the layer's weight, `beta` its bias."""


def worked_example() -> str:
    """The whole page, Markdown."""
    sections = (_INTRO, _training(), _update(), _eval(), _cumulative(), _residual())
    return "\n\n".join((*sections, _conventions(), _values_per_channel(), _epsilon(), _moved(), _failures())) + "\n"


def _training() -> str:
    batch = _column(2, 4, 6, 8)
    mean, var = arithmetic.batch_mean(batch), arithmetic.batch_var(batch)
    plain = _in_training(batch)
    scaled = arithmetic.forward(batch, mean, var, _row(2), _row(1))
    by_hand = 2 * plain.round(5) + 1
    rows = [(_g(x), _five(p), _five(s)) for x, p, s in zip(batch[:, 0], plain[:, 0], scaled[:, 0], strict=True)]
    return f"""## 1. A training step: the batch decides

The batch is (2, 4, 6, 8). Its mean is {_g(mean[0])}. The squared distances from it are
{", ".join(_g(value) for value in ((batch - mean) ** 2)[:, 0])}, together {_g(arithmetic.moments(batch).m2[0])}. \
Divided by n = {arithmetic.values_per_channel(batch.shape)} this is the **biased**
variance, {_g(var[0])}: it normalizes the batch. Divided by n − 1 it is the **unbiased**
variance, 20/3 = {_five(arithmetic.batch_var(batch, unbiased=True)[0])}: it is what gets stored.

{_table(("x", "(x − mean) / √(variance + epsilon)", "· gamma 2 + beta 1"), rows)}

With epsilon 0 the same five digits come out. Going on by hand from the rounded
middle column gives {_list(by_hand[:, 0])}, off by 0.00001 twice.

Put the same 2 beside a 4 alone and it becomes {_two(_in_training(_column(2, 4))[0, 0])} instead of {_two(plain[0, 0])}.
In training mode an input has no output of its own: its neighbours decide too."""


def _update() -> str:
    start, first, second = _two_batches(PYTORCH_MOMENTUM)
    rows = [("(none yet)", "", "", _g(start.mean[0]), _g(start.var[0]), str(start.updates))]
    for batch, after in ((_column(2, 4), first), (_column(6, 8), second)):
        name = f"({_g(batch[0, 0])}, {_g(batch[1, 0])})"
        seen = (_g(arithmetic.batch_mean(batch)[0]), _g(arithmetic.batch_var(batch, unbiased=True)[0]))
        rows.append((name, *seen, _g(after.mean[0]), _g(after.var[0]), str(after.updates)))
    return f"""## 2. What the layer keeps: the running update

The layer starts at mean 0 and variance 1. After every training forward its
statistics move a little, by the momentum m = {_g(PYTORCH_MOMENTUM)}:

    running = (1 − m) · running + m · observed

{_table(("batch", "mean", "unbiased variance", "running_mean", "running_var", "counter"), rows)}

0.9 · 0 + 0.1 · 3 = {_g(first.mean[0])}, then 0.9 · {_g(first.mean[0])} + 0.1 · 7 = {_g(second.mean[0])};
0.9 · 1 + 0.1 · 2 = {_g(first.var[0])}, then 0.9 · {_g(first.var[0])} + 0.1 · 2 = {_g(second.var[0])}.

Every forward in training mode does this: under `no_grad()`, with frozen weights,
in a validation loop that forgot `eval()`. The counter is `num_batches_tracked`."""


def _eval() -> str:
    _, _, running = _two_batches(PYTORCH_MOMENTUM)
    batch = _column(6, 8)
    stored = arithmetic.normalize(batch, running.mean, running.var)
    gain, shift = arithmetic.fold(running.mean, running.var)
    mean, var = _g(running.mean[0]), _g(running.var[0])
    return f"""## 3. Eval: the file decides

In eval the same layer uses what it stored, mean {mean} and variance {var}. The
activation 6, which stood in the batch (6, 8), is

- **{_five(_in_training(batch)[0, 0]).rstrip("0").rstrip(".")}** in training: (6 − 7) / √1
- **{_two(stored[0, 0])}** in eval: (6 − {mean}) / √{var}

The code is right in both. Two updates are too few: the statistics describe the
initial values more than the data. An exporter that folds the norm writes this
eval form as one multiplication and one addition: {_five(gain[0])} · x {_term(shift[0])}."""


def _cumulative() -> str:
    _, first, second = _two_batches(CUMULATIVE)
    everything = arithmetic.batch_var(_column(2, 4, 6, 8))
    return f"""## 4. momentum=None: a plain average over batches

Batch number n weighs 1/n, and the initial values are gone after the first batch.
Running mean: {_g(first.mean[0])}, then {_g(second.mean[0])}. Running variance: {_g(first.var[0])}, then \
{_g(second.var[0])}. This is what
`torch.optim.swa_utils.update_bn` does.

The variance {_g(second.var[0])} is the average *within* the batches. All four values together have
{_g(everything[0])}, because the batches differ in their means: shuffle the data."""


def _residual() -> str:
    rows = [
        (f"{updates:,}", *(_percent(arithmetic.residual_share(m, updates)) for m in (0.1, 0.01, 0.001)))
        for updates in (1, 10, 28, 100, 300, 3000)
    ]
    return f"""## 5. How much of the initial values is left: (1 − m)ⁿ

{_table(("updates n", "m = 0.1", "m = 0.01", "m = 0.001"), rows)}

A share r of the initial variance 1 is a floor: no running variance can be below
r. Where one is, the statistics did not start at 0 and 1 (they were ported, or
averaged anew)."""


def _conventions() -> str:
    start, batch = Running(_row(0), _row(1), 0), _column(2, 4)
    keep = arithmetic.momentum_to_keras(PYTORCH_MOMENTUM)
    onnx = arithmetic.momentum_to_onnx(PYTORCH_MOMENTUM)
    right, wrong = arithmetic.update(start, batch), arithmetic.update(start, batch, keep)
    default = _g(arithmetic.momentum_from_keras(0.99))
    new, old = "(1 − m) · old + m · new", "m · old + (1 − m) · new"
    rows = [("PyTorch", new, _g(PYTORCH_MOMENTUM)), ("TensorFlow, Keras", old, _g(keep)), ("ONNX", old, _g(onnx))]
    return f"""## 6. One word, two meanings: momentum

{_table(("framework", "running statistics become", "m for the same update"), rows)}

PyTorch's number is 1 − theirs (Keras' default 0.99 is {default} in PyTorch). A {_g(keep)}
carried over unchanged lets the one batch (2, 4) move the mean to {_g(wrong.mean[0])} instead of
{_g(right.mean[0])}: the layer remembers little more than its last batch."""


def _values_per_channel() -> str:
    rows = []
    for shape in ((32, 64, 56, 56), (2, 512, 7, 7), (8, 512), (2, 512, 1, 1)):
        count = arithmetic.values_per_channel(shape)
        written = " × ".join(str(size) for size in (shape[0], *shape[2:]))
        rows.append((str(shape), written, f"{count:,}", _five(arithmetic.bessel(count))))
    return f"""## 7. How many values a channel sees: N × H × W

The mean of a channel is taken over the batch and all positions.

{_table(("input (N, C, H, W)", "N × H × W", "values", "unbiased / biased"), rows)}

Two different values become −1 and 1 whatever they were, and on one value PyTorch
refuses to train. Gradient accumulation does not enlarge this number, and each
device has its own."""


def _epsilon() -> str:
    rows = []
    for var in (1.0, 1e-2, 1e-4, 1e-6):
        gains = [arithmetic.fold(_row(0), _row(var), eps=eps).gain[0] for eps in (1e-5, 1e-3)]
        change = arithmetic.gain_change(_row(var), 1e-5, 1e-3)[0]
        rows.append((_g(var), f"{gains[0]:.5g}", f"{gains[1]:.5g}", _percent(change)))
    return f"""## 8. Where epsilon matters

{_table(("running_var", "gain, epsilon 1e-5", "gain, epsilon 1e-3", "difference"), rows)}

PyTorch's default is 1e-5, Keras' is 1e-3. A state dict does not say which one the
model was trained with, and channels of small variance need the exact one."""


def _moved() -> str:
    before, after = (arithmetic.normalize(_column(x), _row(20), _row(25))[0, 0] for x in (30, 40))
    return f"""## 9. When the input moves

The file stores mean 20 and variance 25, so 30 becomes {before:.0f}. In production every
input is 10 higher: what was 30 is now 40 and becomes {after:.0f}. Nothing in the file is
wrong and no error is raised; the same activation is two standard deviations
further out. In training mode the batch's own mean would have moved along."""


def _failures() -> str:
    _, _, running = _two_batches(PYTORCH_MOMENTUM)
    batch = _column(6, 8)
    train, stored = _in_training(batch)[0, 0], arithmetic.normalize(batch, running.mean, running.var)[0, 0]
    left = _percent(arithmetic.residual_share(0.01, 30))
    return f"""## What goes wrong, in these terms

- **The statistics are not in the file**: the loaded layer keeps 0 and 1 (BN101),
  never updated them (BN103), or stopped too early: 30 updates with m = 0.01
  leave {left} (BN105).
- **They cannot be used**: a NaN that enters once stays forever, since (1 − m) · NaN
  is NaN (BN106); variance + epsilon below 0 has no root (BN107).
- **The batch is used instead**: left in training mode, the model of section 3
  answers {_two(train)} where eval answers {_two(stored)} (BN201, BN202, BN203).
- **The convention is another one**: momentum (BN208) or epsilon (BN108, BN209).
- **Frozen weights, moving statistics**: section 2 needs no optimizer (BN501)."""


def _two_batches(momentum: float | Cumulative) -> tuple[Running, Running, Running]:
    """The statistics before, between and after the batches (2, 4) and (6, 8)."""
    start = Running(_row(0), _row(1), 0)
    first = arithmetic.update(start, _column(2, 4), momentum)
    return start, first, arithmetic.update(first, _column(6, 8), momentum)


def _in_training(batch: Array) -> Array:
    return arithmetic.normalize(batch, arithmetic.batch_mean(batch), arithmetic.batch_var(batch))


def _column(*values: float) -> Array:
    """A batch of one channel, (N, 1)."""
    return _row(*values).reshape(-1, 1)


def _row(*values: float) -> Array:
    import numpy as np

    return np.array(values, dtype=np.float64)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---:"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _g(value: float) -> str:
    return f"{value:g}"


def _two(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def _five(value: float) -> str:
    return f"{value:.5f}".replace("-", "−")


def _list(values: Array) -> str:
    return ", ".join(_five(value) for value in values)


def _term(value: float) -> str:
    return f"{'+' if value >= 0 else '−'} {_five(abs(value))}"


def _percent(share: float) -> str:
    """As many digits as tell: 0.049 %, 5.2 %, 35 %, 99.9 %."""
    if share < 1e-4:
        return "< 0.01 %"
    if 0.995 <= share < 1.0:
        return f"{share * 100:.1f} %"
    return f"{share * 100:.2g} %" if share < 0.1 else f"{share * 100:.0f} %"
