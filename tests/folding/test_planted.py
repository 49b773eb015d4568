"""Every cause planted in every kind of layer is named, and what is not on the list never gets a name."""

from __future__ import annotations

import numpy as np
import pytest
from folded_layers import CHANNELS, KINDS, Fault, Folded, Net, net, reordered, right, scaled, verdict

from bnaudit.comparison import FoldCause

SEEDS = range(3)


def with_epsilon(eps: float) -> Fault:
    return lambda case, _: right(case._replace(eps=eps))


def older(case: Net, random: np.random.Generator) -> Folded:
    mean = case.mean + random.normal(0, 0.1, CHANNELS) * np.sqrt(case.var)
    var = case.var * np.exp(random.normal(0, 0.1, CHANNELS))
    return right(case._replace(mean=mean.astype(np.float32), var=var.astype(np.float32)))


def permuted_norm(case: Net, random: np.random.Generator) -> Folded:
    order = random.permutation(CHANNELS)
    return right(
        case._replace(mean=case.mean[order], var=case.var[order], gamma=case.gamma[order], beta=case.beta[order])
    )


def permuted_all(case: Net, random: np.random.Generator) -> Folded:
    if case.kind.groups > 1 and case.kind.operator == "transposed conv":
        return permuted_norm(case, random)
    order = random.permutation(CHANNELS)
    folded = right(case)
    return Folded(reordered(case.kind, folded.weight, order), folded.bias[order])


def permuted_layer(case: Net, random: np.random.Generator) -> Folded:
    if case.kind.groups > 1 and case.kind.operator == "transposed conv":
        return permuted_norm(case, random)
    order = random.permutation(CHANNELS)
    return right(case._replace(weight=reordered(case.kind, case.weight, order), bias=case.bias[order]))


def half(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float16).astype(np.float32)


def bfloat(values: np.ndarray) -> np.ndarray:
    import torch

    return torch.from_numpy(np.ascontiguousarray(values)).bfloat16().float().numpy()


def halved_first(case: Net, _: np.random.Generator) -> Folded:
    return right(case._replace(weight=half(case.weight), bias=half(case.bias)))


def halved_norm(case: Net, _: np.random.Generator) -> Folded:
    return right(case._replace(mean=half(case.mean), var=half(case.var), gamma=half(case.gamma), beta=half(case.beta)))


def twice(case: Net, _: np.random.Generator) -> Folded:
    return Folded(right(case).weight, case.beta + (2 * case.bias - case.mean) * case.gain)


PLANTED: dict[str, tuple[FoldCause, Fault]] = {
    "right": (FoldCause.EQUAL, lambda case, _: right(case)),
    "in float64": (FoldCause.EQUAL, lambda case, _: in_double(case)),
    "epsilon 1e-3": (FoldCause.EPSILON, with_epsilon(1e-3)),
    "epsilon 1e-4": (FoldCause.EPSILON, with_epsilon(1e-4)),
    "epsilon 1e-6": (FoldCause.EPSILON, with_epsilon(1e-6)),
    "epsilon 0": (FoldCause.EPSILON, with_epsilon(0.0)),
    "epsilon 3.7e-4": (FoldCause.EPSILON, with_epsilon(3.7e-4)),
    "bias forgotten": (
        FoldCause.BIAS_FORGOTTEN,
        lambda case, _: Folded(right(case).weight, case.beta - case.mean * case.gain),
    ),
    "bias doubled": (FoldCause.BIAS_DOUBLED, twice),
    "bias added as it is": (
        FoldCause.BIAS_DOUBLED,
        lambda case, _: Folded(right(case).weight, right(case).bias + case.bias),
    ),
    "beta doubled": (FoldCause.BIAS_DOUBLED, lambda case, _: Folded(right(case).weight, right(case).bias + case.beta)),
    "gamma ignored": (FoldCause.GAMMA_IGNORED, lambda case, _: right(case._replace(gamma=np.ones_like(case.gamma)))),
    "beta ignored": (FoldCause.BETA_IGNORED, lambda case, _: right(case._replace(beta=np.zeros_like(case.beta)))),
    "older statistics": (FoldCause.OLDER_STATISTICS, older),
    "all permuted": (FoldCause.PERMUTED, permuted_all),
    "norm permuted": (FoldCause.PERMUTED, permuted_norm),
    "layer permuted": (FoldCause.PERMUTED, permuted_layer),
    "float16 afterwards": (FoldCause.HALF_PRECISION, lambda case, _: Folded(*map(half, right(case)))),
    "bfloat16 afterwards": (FoldCause.HALF_PRECISION, lambda case, _: Folded(*map(bfloat, right(case)))),
    "float16 before": (FoldCause.HALF_PRECISION, halved_first),
    "norm in float16": (FoldCause.HALF_PRECISION, halved_norm),
    "left out": (FoldCause.LEFT_OUT, lambda case, _: Folded(case.weight, case.bias)),
    "left out, all in the next float32": (
        FoldCause.LEFT_OUT,
        lambda case, _: Folded(*(np.nextafter(value, np.float32(np.inf)) for value in (case.weight, case.bias))),
    ),
    "other weights": (
        FoldCause.OTHER_WEIGHTS,
        lambda case, random: right(case._replace(weight=random.normal(size=case.weight.shape).astype(np.float32))),
    ),
    "trained further": (
        FoldCause.OTHER_WEIGHTS,
        lambda case, random: right(
            case._replace(weight=case.weight + random.normal(0, 0.02, case.weight.shape).astype(np.float32))
        ),
    ),
}


def in_double(case: Net) -> Folded:
    wide = Net(case.kind, *(np.asarray(value, np.float64) for value in case[1:7]), case.eps)
    gain = wide.gamma / np.sqrt(wide.var + case.eps)
    weight = scaled(wide.kind, wide.weight, gain)
    return Folded(weight.astype(np.float32), (wide.beta + (wide.bias - wide.mean) * gain).astype(np.float32))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("planted", PLANTED)
def test_what_is_planted_is_named(planted: str, kind: str) -> None:
    cause, fault = PLANTED[planted]
    for seed in SEEDS:
        case = net(kind, seed)
        found = verdict(case, fault(case, np.random.default_rng(seed + 100)))
        assert found.cause is cause, found


@pytest.mark.parametrize("planted", PLANTED)
def test_a_state_dict_that_says_neither_kind_nor_groups_gives_the_same(planted: str) -> None:
    cause, fault = PLANTED[planted]
    for kind in KINDS:
        case = net(kind)
        found = verdict(case, fault(case, np.random.default_rng(100)), says=False)
        assert found.cause is cause, (kind, found)


FOREIGN: dict[str, Fault] = {
    "noise on the bias": lambda case, random: Folded(
        right(case).weight, right(case).bias + random.normal(0, 0.1, CHANNELS).astype(np.float32)
    ),
    "noise of a thousandth on the bias": lambda case, random: Folded(
        right(case).weight, right(case).bias * (1 + random.normal(0, 1e-3, CHANNELS)).astype(np.float32)
    ),
    "another gamma": lambda case, random: right(
        case._replace(gamma=case.gamma * random.uniform(0.8, 1.2, CHANNELS).astype(np.float32))
    ),
    "another variance": lambda case, random: right(
        case._replace(var=case.var * random.uniform(0.5, 2, CHANNELS).astype(np.float32))
    ),
    "another mean": lambda case, random: right(
        case._replace(mean=case.mean + random.normal(0, 0.1, CHANNELS).astype(np.float32))
    ),
    "all half as large": lambda case, _: Folded(right(case).weight / 2, right(case).bias / 2),
    "weights a thousandth larger": lambda case, _: Folded(right(case).weight * np.float32(1.001), right(case).bias),
    "unbiased variance": lambda case, _: right(case._replace(var=case.var * np.float32(32 / 31))),
    "epsilon outside the root": lambda case, _: right(
        case._replace(var=(np.sqrt(case.var) + np.float32(1e-3)) ** 2, eps=0.0)
    ),
    "divided by the variance": lambda case, _: right(case._replace(var=(case.var + np.float32(1e-5)) ** 2, eps=0.0)),
    "mean and variance swapped": lambda case, _: right(case._replace(mean=case.var, var=abs(case.mean))),
    "gamma and beta swapped": lambda case, _: right(case._replace(gamma=case.beta, beta=case.gamma)),
    "mean left out": lambda case, _: right(case._replace(mean=np.zeros_like(case.mean))),
    "signs lost": lambda case, _: Folded(abs(right(case).weight), right(case).bias),
    "one channel broken": lambda case, _: one_channel(case),
    "statistics of a norm elsewhere": lambda case, random: right(net_like(case, random)),
    "channels shifted by one in the bias": lambda case, _: Folded(right(case).weight, np.roll(right(case).bias, 1)),
}


def one_channel(case: Net) -> Folded:
    gain = np.ones(CHANNELS, np.float32)
    gain[3] = 1.5
    folded = right(case)
    return Folded(scaled(case.kind, folded.weight, gain), folded.bias)


def net_like(case: Net, random: np.random.Generator) -> Net:
    other = net("conv", int(random.integers(1000, 2000)))
    return case._replace(mean=other.mean, var=other.var, gamma=other.gamma, beta=other.beta)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("foreign", FOREIGN)
def test_what_is_not_on_the_list_gets_no_name(foreign: str, kind: str) -> None:
    for seed in SEEDS:
        case = net(kind, seed)
        found = verdict(case, FOREIGN[foreign](case, np.random.default_rng(seed + 100)))
        honest = (FoldCause.UNKNOWN, FoldCause.OTHER_WEIGHTS) if foreign == "signs lost" else (FoldCause.UNKNOWN,)
        assert found.cause in honest, found
