"""Right folds are equal whatever the numbers are, and what no one can tell apart is said to be so."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from folded_layers import CHANNELS, KINDS, Folded, Held, Net, layer, net, norm, right, verdict
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from bnaudit.comparison import FoldCause, LinearLayer
from bnaudit.folding.causes import judge
from bnaudit.folding.measuring import weigh
from bnaudit.folding.norm_state import norm_state

pytestmark = pytest.mark.filterwarnings("error")

SPECIAL = {
    "gamma 0 in some channels": {"gamma": 0.0},
    "negative gamma": {"gamma": -1.3},
    "tiny gamma": {"gamma": 1e-30},
    "no variance": {"var": 0.0},
    "tiny variance": {"var": 1e-20},
    "huge variance": {"var": 1e10},
    "far mean": {"mean": 1e4},
}


def with_special(case: Net, changes: dict[str, float], every: int) -> Net:
    values = {}
    for name, value in changes.items():
        array = getattr(case, name).copy()
        array[::every] = value
        values[name] = array
    return case._replace(**values)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("special", SPECIAL)
@pytest.mark.parametrize("every", [1, 3])
def test_unusual_channels_fold_as_others_do(special: str, kind: str, every: int) -> None:
    case = with_special(net(kind), SPECIAL[special], every)
    assert verdict(case, right(case)).cause is FoldCause.EQUAL


@pytest.mark.parametrize("kind", KINDS)
def test_dead_weights_are_equal_while_they_stay_dead(kind: str) -> None:
    case = net(kind)
    if case.kind.operator == "transposed conv":
        case.weight[:, 0] = 0
    else:
        case.weight[2] = 0
    assert verdict(case, right(case)).cause is FoldCause.EQUAL
    woken = right(case)
    woken.weight[:, 0][woken.weight[:, 0] == 0] = 1e-3
    woken.weight[2][woken.weight[2] == 0] = 1e-3
    found = verdict(case, woken)
    assert found.cause in (FoldCause.UNKNOWN, FoldCause.OTHER_WEIGHTS)
    assert found.channels


def test_all_dead_is_equal() -> None:
    case = net("conv")._replace(weight=np.zeros(KINDS["conv"].shape, np.float32))
    assert verdict(case, right(case)).cause is FoldCause.EQUAL
    assert verdict(case, right(case._replace(bias=case.bias * 0))).cause is FoldCause.BIAS_FORGOTTEN


@given(
    kind=st.sampled_from(sorted(KINDS)),
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([1e-6, 1e-3, 1.0, 1e3]),
    eps=st.sampled_from([1e-5, 1e-3, 1e-8, 0.0]),
)
@settings(max_examples=60)
def test_a_right_fold_is_equal(kind: str, seed: int, scale: float, eps: float) -> None:
    case = net(kind, seed)
    case = case._replace(weight=case.weight * np.float32(scale), mean=case.mean * np.float32(scale), eps=eps)
    found = verdict(case, right(case))
    assert found.cause is FoldCause.EQUAL
    assert found.gain_residual is not None and found.limit is not None and found.gain_residual < found.limit


@given(seed=st.integers(0, 2**32 - 1), eps=st.floats(1e-7, 5e-2), kind=st.sampled_from(sorted(KINDS)))
@settings(max_examples=60)
def test_a_solved_epsilon_is_as_near_as_its_error_says(seed: int, eps: float, kind: str) -> None:
    case = net(kind, seed)
    found = verdict(case, right(case._replace(eps=eps)))
    if found.cause is FoldCause.EQUAL:
        assert abs(eps - case.eps) < 1e-4 * float(case.var.min())
        return
    assert found.cause is FoldCause.EPSILON
    assert found.eps is not None and found.eps_error is not None
    assert abs(found.eps - np.float32(eps)) <= 6 * found.eps_error
    # Facts: an error of about variance × 1e-7, that of the smallest variance.
    assert found.eps_error < 4e-7 * (float(case.var.min()) + eps)


def test_epsilon_in_a_state_dict_is_solved_and_no_mismatch() -> None:
    for eps in (1e-5, 1e-3, 1e-6):
        case = net("conv")._replace(eps=eps)
        found = verdict(case, right(case), says=False, eps=None)
        assert found.cause is FoldCause.EQUAL
        assert found.eps == eps
        assert f"epsilon {eps:g}" in found.detail and "not stated" in found.detail


def test_epsilon_0_and_1e_12_cannot_be_told_apart() -> None:
    case = net("conv")
    found = verdict(case, right(case._replace(eps=0.0)))
    assert found.cause is FoldCause.EPSILON
    assert "cannot tell between 0, 1e-12" in found.detail


def test_large_variances_do_not_tell_epsilon() -> None:
    case = net("conv")._replace(var=np.linspace(50, 90, CHANNELS, dtype=np.float32))
    assert verdict(case, right(case._replace(eps=1e-6))).cause is FoldCause.EQUAL
    found = verdict(case, right(case._replace(eps=1e-2)))
    assert found.cause is FoldCause.EPSILON


def test_one_variance_in_all_channels_leaves_only_a_factor() -> None:
    case = net("conv")._replace(var=np.ones(CHANNELS, np.float32), mean=np.zeros(CHANNELS, np.float32))
    found = verdict(case, Folded(right(case).weight * np.float32(0.97), right(case).bias))
    assert found.cause is FoldCause.UNKNOWN


def test_a_missing_bias_counts_as_0() -> None:
    case = net("conv")._replace(bias=np.zeros(CHANNELS, np.float32))
    own, other = layer(case.kind, case.weight, None), layer(case.kind, *right(case))
    weighed, state = weigh(own, other, CHANNELS), norm_state(norm(case))
    assert weighed is not None and state is not None
    assert judge(weighed, state).cause is FoldCause.EQUAL
    without = weigh(own, layer(case.kind, right(case).weight, None), CHANNELS)
    assert without is not None
    found = judge(without, state)
    assert (found.cause, found.detail) == (FoldCause.UNKNOWN, "the folded layer has no bias that the norm gives it")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_not_judged(value: float) -> None:
    for name in ("weight", "bias", "mean", "var", "gamma"):
        case = net("conv")
        broken = getattr(case, name).copy()
        broken.reshape(-1)[0] = value
        found = verdict(case._replace(**{name: broken}), right(case))
        assert found.cause is FoldCause.UNKNOWN and "not finite" in found.detail


def test_a_negative_variance_is_not_judged() -> None:
    case = net("conv")
    assert "negative variance" in verdict(case._replace(var=-case.var), right(case)).detail


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_stored_dtype_says_what_rounding_is(dtype: str, kind: str) -> None:
    case = net(kind)
    folded = [torch.from_numpy(np.ascontiguousarray(values)).to(getattr(torch, dtype)) for values in right(case)]
    weight, bias = (Held(values.double().numpy(), dtype) for values in folded)
    own = layer(case.kind, case.weight, case.bias)
    other = LinearLayer(name="conv", operator=case.kind.operator, weight=weight, bias=bias, groups=case.kind.groups)
    weighed, state = weigh(own, other, CHANNELS), norm_state(norm(case))
    assert weighed is not None and state is not None
    assert judge(weighed, state).cause is FoldCause.EQUAL
    wrong = norm_state(norm(case, eps=1e-3))
    assert wrong is not None and judge(weighed, wrong).cause is FoldCause.EPSILON


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_few_channels_name_only_what_they_can(channels: int) -> None:
    for factor in (0.9, 1.1, 0.5):
        case = net("conv")
        case = Net(case.kind, *(values[:channels] for values in case[1:7]))
        folded = right(case)
        odd = folded._replace(weight=folded.weight * np.float32(factor))
        own, other = layer(case.kind, case.weight, case.bias), layer(case.kind, *odd)
        weighed, state = weigh(own, other, channels), norm_state(norm(case))
        assert weighed is not None and state is not None
        assert judge(weighed, state).cause is FoldCause.UNKNOWN


TORCH = {
    "conv1d": (lambda: nn.Conv1d(5, 8, 3, bias=False), nn.BatchNorm1d),
    "conv2d": (lambda: nn.Conv2d(5, 8, 3), nn.BatchNorm2d),
    "depthwise": (lambda: nn.Conv2d(8, 8, 3, groups=8), nn.BatchNorm2d),
    "multiplied": (lambda: nn.Conv2d(4, 8, 3, groups=4), nn.BatchNorm2d),
    "conv3d": (lambda: nn.Conv3d(2, 8, 2, groups=2), nn.BatchNorm3d),
    "transposed": (lambda: nn.ConvTranspose2d(5, 8, 2, bias=False), nn.BatchNorm2d),
    "linear": (lambda: nn.Linear(7, 8), nn.BatchNorm1d),
}


@pytest.mark.parametrize("name", TORCH)
def test_what_pytorch_folds_is_equal(name: str) -> None:
    make, norm_class = TORCH[name]
    torch.manual_seed(4)
    module, bn = make().eval(), norm_class(8).eval()
    for values, low, high in (
        (bn.running_mean, -1, 1),
        (bn.running_var, 0.01, 2),
        (bn.weight, -1, 1),
        (bn.bias, -1, 1),
    ):
        nn.init.uniform_(values, low, high)  # type: ignore[arg-type]
    transposed = "transposed" in name
    if isinstance(module, nn.Linear):
        folded: nn.Module = fuse_linear_bn_eval(module, bn)
    else:
        folded = fuse_conv_bn_eval(module, bn, transposed)
    state = norm_state(norm_of(bn))
    weighed = weigh(layer_of(module), layer_of(folded), 8)
    assert weighed is not None and state is not None
    assert judge(weighed, state).cause is FoldCause.EQUAL


def layer_of(module: nn.Module) -> LinearLayer:
    def held(values: torch.Tensor | None) -> Held | None:
        return None if values is None else Held(values.detach().numpy())

    kind = "linear" if isinstance(module, nn.Linear) else "conv"
    weight = held(module.weight)  # type: ignore[arg-type]
    assert weight is not None
    return LinearLayer(
        name="conv",
        operator="transposed conv" if getattr(module, "transposed", False) else kind,
        weight=weight,
        bias=held(module.bias),  # type: ignore[arg-type]
        groups=getattr(module, "groups", 1),
    )


def norm_of(bn: nn.Module) -> object:
    from builders import batch_norm

    arrays = {key: value.detach().numpy() for key, value in bn.state_dict().items()}
    return batch_norm(
        "bn",
        mean=arrays["running_mean"],
        var=arrays["running_var"],
        gamma=arrays["weight"],
        beta=arrays["bias"],
        eps=bn.eps,
    )
