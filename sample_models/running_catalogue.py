"""The samples that are told apart only by running them, and what a run must say."""

from __future__ import annotations

from sample_models.expected import Expected, Run, Sample


def _defects(factory: str) -> str:
    return f"digit_defects.py:build_{factory}"


def _controls(factory: str) -> str:
    return f"digit_controls.py:build_{factory}"


SMALL = "small_digits.py:build_small"
LEAK = ("eval-mode", "neighbours")
GAP = ("train-eval-gap",)

RUNNING_DEFECTS = {
    "defects/functional_norm.pt": Sample(
        "forward() calls functional batch norm with training=True",
        run=Run(
            _defects("functional"),
            findings=(Expected("BN401", ("bn2",)),),
            also=("BN301", "BN402"),
            fails=LEAK,
            open=GAP,
        ),
    ),
    "defects/hand_made_norm.pt": Sample(
        "a norm class of one's own, always with training=True, in a pickled module",
        run=Run(allowed="trust_pickle", findings=(Expected("BN401", ("bn2",)),), also=("BN301",), fails=LEAK, open=GAP),
    ),
    "defects/norm_made_in_forward.pt": Sample(
        "forward() makes a new norm each time",
        run=Run(
            _defects("norm_in_forward"), findings=(Expected("BN401", None),), also=("BN301",), fails=LEAK, open=GAP
        ),
    ),
    "defects/train_overridden.pt": Sample(
        "a norm whose train() ignores what it is told, so that eval() does not reach it",
        run=Run(
            _defects("stubborn"),
            findings=(Expected("BN401", ("bn2",)),),
            also=("BN201", "BN301", "BN402"),
            fails=LEAK,
            open=GAP,
        ),
    ),
    "defects/always_dropping.pt": Sample(
        "functional dropout without its training flag",
        run=Run(_defects("always_dropping"), findings=(Expected("BN401", ("fc",)),), fails=("eval-mode",)),
    ),
    "defects/noisy_input.onnx": Sample(
        "a graph that adds noise to its input",
        run=Run(findings=(Expected("BN302", None),), fails=("eval-mode",)),
    ),
    "defects/one_norm_untracked.pt2": Sample(
        "torch.export of a network with one norm without running statistics",
        (Expected("BN204", ("bn2",)),),
        run=Run(
            allowed="run",
            findings=(Expected("BN301", ("bn2",)),),
            also=("BN401",),
            fails=("neighbours",),
            open=GAP,
        ),
    ),
    "defects/squeezed_batch_axis.pt": Sample(
        "squeeze() takes the batch axis when the batch is one",
        run=Run(allowed="run", findings=(Expected("BN303", None),), fails=("neighbours",)),
    ),
    "defects/carried_in_an_attribute.pt": Sample(
        "scripted: an attribute carries the last batch over to the next",
        run=Run(allowed="run", findings=(Expected("BN306", None),), fails=("eval-mode",)),
    ),
    "defects/buffer_moves_in_eval.pt": Sample(
        "a registered centre moves in evaluation, too",
        run=Run(
            _defects("centering"),
            findings=(Expected("BN306", None),),
            fails=("eval-mode",),
        ),
    ),
    "defects/minibatch_spread.onnx": Sample(
        "a feature made of the whole batch, as in discriminators",
        run=Run(findings=(Expected("BN301", None),), fails=("neighbours",)),
    ),
    "defects/softmax_over_batch.pt2": Sample(
        "softmax over axis 0",
        run=Run(allowed="run", findings=(Expected("BN301", ("middle",)),), fails=("neighbours",)),
    ),
    "defects/attention_over_batch.pt": Sample(
        "a pickled module whose samples attend to each other",
        run=Run(allowed="trust_pickle", findings=(Expected("BN301", ("middle.attention",)),), fails=("neighbours",)),
    ),
    "defects/mean_of_rows_so_far.onnx": Sample(
        "a cumulative sum over axis 0",
        run=Run(findings=(Expected("BN301", None),), fails=("neighbours",)),
    ),
    "defects/row_number.pt": Sample(
        "a position code over the wrong axis: what an image is taken for depends on its row",
        run=Run(allowed="run", findings=(Expected("BN305", None),), also=("BN301", "BN303"), fails=("neighbours",)),
    ),
    "defects/batch_first_forgotten.onnx": Sample(
        "an LSTM that reads the batch as time",
        run=Run(findings=(Expected("BN301", None),), fails=("neighbours",)),
    ),
    "defects/range_of_the_batch.onnx": Sample(
        "onnxruntime's dynamic quantization: each activation is rounded in the range of its whole batch",
        run=Run(findings=(Expected("BN301", None),), fails=("neighbours",)),
    ),
    "defects/stale_mean.pt": Sample(
        "one layer's running mean is a standard deviation off",
        run=Run(SMALL, findings=(Expected("BN404", ("bn2",)),), also=("BN403",), fails=GAP),
    ),
    "defects/stale_variance.onnx": Sample(
        "one layer's running variance is four times too large",
        run=Run(findings=(Expected("BN404", ("bn2",)),), also=("BN403",), fails=GAP),
    ),
    "defects/norm_for_two_populations.pt": Sample(
        "one norm runs on two very different populations",
        run=Run(
            _defects("reused_norm"),
            findings=(Expected("BN407", ("bn1",)),),
            also=("BN403", "BN404"),
            fails=GAP,
        ),
    ),
    "defects/one_value_per_statistic.pt": Sample(
        "a group norm with one value per group: its output does not depend on the image",
        run=Run(
            _defects("constant_gate"),
            findings=(Expected("BN406", ("middle.norm",)),),
            also=("BN303",),
        ),
    ),
    "defects/frozen_but_trained_norms.pt": Sample(
        "a frozen backbone whose norms train() puts into training mode",
        run=Run(
            _defects("frozen_twin"),
            findings=(Expected("BN501", ("bn1", "bn2")),),
            also=("BN403", "BN404"),
            fails=("train-eval-gap", "frozen"),
        ),
    ),
}

RUNNING_CONTROLS = {
    "controls/perfect_statistics.pt": Sample("statistics measured anew over all inputs", run=Run(SMALL)),
    "controls/bfloat16.pt": Sample(
        "a pickled module in bfloat16: the noise of its kernels is not a leak", run=Run(allowed="trust_pickle")
    ),
    "controls/frozen_backbone.pt": Sample(
        "a frozen backbone whose own train() keeps its norms in eval", run=Run(_controls("frozen_backbone"))
    ),
    "controls/weight_standardization.onnx": Sample("weights standardized in the graph", run=Run()),
    "controls/rotary_transformer.pt": Sample(
        "layer norms, dropout, and a table of positions made in the first forward", run=Run(_controls("rotary"))
    ),
    "controls/mixture_of_experts.pt": Sample(
        "a gate sends every image to one of four experts", run=Run(allowed="trust_pickle")
    ),
    "controls/monte_carlo_dropout.pt": Sample(
        "dropout that stays on by design",
        run=Run(_controls("monte_carlo"), intended=(("BN302", "middle"), ("BN401", "middle"))),
    ),
    "controls/shared_head.pt": Sample("one norm for an image and for its mirror, scripted", run=Run(allowed="run")),
    "controls/reading_rows.onnx": Sample("an LSTM with its batch axis where it belongs", run=Run()),
    "controls/instance_norm.pt2": Sample("torch.export of instance norm with tracking", run=Run(allowed="run")),
}
