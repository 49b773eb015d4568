"""Which layer belongs to which norm, and which one holds both, where names or order do not say it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from folded_layers import Array, Net, folds_of, net, right

from bnaudit.auditing import describe
from bnaudit.caps import Caps
from bnaudit.comparison import FoldCause, Folds
from bnaudit.description import Carrier, Part
from bnaudit.folding import Side, folds
from bnaudit.matching import match
from bnaudit.records import replace

State = dict[str, Array]
LAYERS = ("a", "b", "c", "d")


def nets() -> dict[str, Net]:
    """Four layers of one shape."""
    return {name: net("conv", seed) for seed, name in enumerate(LAYERS)}


def conv(case: Net, name: str) -> State:
    return {f"{name}.conv.weight": case.weight, f"{name}.conv.bias": case.bias}


def norm(case: Net, name: str) -> State:
    values = {"weight": case.gamma, "bias": case.beta, "running_mean": case.mean, "running_var": case.var}
    return {f"{name}.bn.{leaf}": value for leaf, value in values.items()}


def in_turn(cases: Mapping[str, Net]) -> State:
    return {
        key: value for name, case in cases.items() for key, value in {**conv(case, name), **norm(case, name)}.items()
    }


def norms_last(cases: Mapping[str, Net]) -> State:
    convs = {key: value for name, case in cases.items() for key, value in conv(case, name).items()}
    return convs | {key: value for name, case in cases.items() for key, value in norm(case, name).items()}


def norms_first(cases: Mapping[str, Net]) -> State:
    """Each norm is registered before its convolution: what precedes a norm is another one's convolution."""
    return {
        key: value for name, case in cases.items() for key, value in {**norm(case, name), **conv(case, name)}.items()
    }


def folded(cases: Mapping[str, Net], named: Callable[[str], str] = str, order: str = "abcd") -> State:
    found: State = {}
    for name in order:
        weight, bias = right(cases[name])
        found |= {f"{named(name)}.conv.weight": weight, f"{named(name)}.conv.bias": bias}
    return found


def compared(baseline: State, subject: State, folder: Path) -> Folds | None:
    for name, state in (("baseline.npz", baseline), ("subject.npz", subject)):
        np.savez(folder / name, **state)  # type: ignore[arg-type]
    return folds_of(folder / "subject.npz", folder / "baseline.npz")


def homes(found: Folds | None) -> dict[str, str]:
    assert found is not None
    assert {fold.cause for fold in found.folds} <= {FoldCause.EQUAL}, found.folds
    return {fold.layer.partition(".")[0]: fold.into.partition(".")[0] for fold in found.folds}


@pytest.mark.parametrize("arranged", [in_turn, norms_last, norms_first])
@pytest.mark.parametrize(
    ("named", "order"),
    [(str, "abcd"), (str, "dbca"), (str.upper, "abcd"), (str.upper, "cadb"), (lambda name: f"model.{name}", "abcd")],
)
def test_the_layers_are_found(
    arranged: Callable[[Mapping[str, Net]], State], named: Callable[[str], str], order: str, tmp_path: Path
) -> None:
    found = compared(arranged(nets()), folded(nets(), named, order), tmp_path)
    last = {name: named(name).partition(".")[0] for name in LAYERS}
    assert homes(found) == last
    assert found is not None and found.unfound == ()


def test_a_norm_without_a_fold_is_unfound(tmp_path: Path) -> None:
    cases = nets()
    subject = folded({**cases, "d": net("conv", 9)}, str, "abc")
    found = compared(in_turn(cases), subject, tmp_path)
    assert homes(found) == {"a": "a", "b": "b", "c": "c"}
    assert found is not None and found.unfound == ("d.bn",)


def test_norms_that_stayed_are_no_question(tmp_path: Path) -> None:
    cases = nets()
    subject = folded(cases, str, "ab") | in_turn({name: cases[name] for name in "cd"})
    assert homes(compared(in_turn(cases), subject, tmp_path)) == {"a": "a", "b": "b"}


def test_exchanged_norms_are_told(tmp_path: Path) -> None:
    cases = nets()
    one, other = cases["a"], cases["b"]
    swapped = dict(cases)
    swapped["a"] = one._replace(mean=other.mean, var=other.var, gamma=other.gamma, beta=other.beta)
    swapped["b"] = other._replace(mean=one.mean, var=one.var, gamma=one.gamma, beta=one.beta)
    found = compared(in_turn(cases), folded(swapped), tmp_path)
    assert found is not None
    causes = {fold.layer: (fold.linear, fold.cause) for fold in found.folds}
    assert causes["c.bn"] == ("c.conv", FoldCause.EQUAL) and causes["d.bn"] == ("d.conv", FoldCause.EQUAL)
    assert causes["a.bn"] == ("a.conv", FoldCause.UNKNOWN) and causes["b.bn"] == ("b.conv", FoldCause.UNKNOWN)
    assert next(fold.detail for fold in found.folds if fold.layer == "a.bn") == "it is the fold of another norm, b.bn"


def test_a_norm_that_was_left_out_is_told_beside_folded_ones(tmp_path: Path) -> None:
    cases = nets()
    subject = folded(cases) | conv(cases["d"], "d")
    found = compared(in_turn(cases), subject, tmp_path)
    assert found is not None
    assert [(fold.layer, fold.cause) for fold in found.folds if fold.cause is not FoldCause.EQUAL] == [
        ("d.bn", FoldCause.LEFT_OUT)
    ]


def test_dropped_norms_alone_are_no_fold(tmp_path: Path) -> None:
    cases = nets()
    subject = {key: value for name, case in cases.items() for key, value in conv(case, name).items()}
    assert compared(in_turn(cases), subject, tmp_path) is None


def test_folds_with_one_fault_in_all_are_folds_whatever_it_is(tmp_path: Path) -> None:
    def unbiased(case: Net) -> Net:
        return case._replace(var=(case.var * (16 / 15)).astype("f4"))

    cases = nets()
    found = compared(in_turn(cases), folded({name: unbiased(case) for name, case in cases.items()}), tmp_path)
    assert found is not None
    assert [fold.cause for fold in found.folds] == [FoldCause.UNKNOWN] * 4
    others = folded({name: net("conv", 50 + at) for at, name in enumerate(LAYERS)})
    assert compared(in_turn(cases), others, tmp_path) is None


def test_a_layer_trained_further_is_told_by_its_name(tmp_path: Path) -> None:
    cases = nets()
    moved = {**cases, "b": cases["b"]._replace(weight=cases["b"].weight + np.float32(0.05))}
    found = compared(in_turn(cases), folded(moved), tmp_path)
    assert found is not None
    assert [(fold.layer, fold.cause) for fold in found.folds if fold.cause is not FoldCause.EQUAL] == [
        ("b.bn", FoldCause.OTHER_WEIGHTS)
    ]


def test_an_older_checkpoint_of_all_layers(tmp_path: Path) -> None:
    random = np.random.default_rng(5)

    def moved(case: Net) -> Net:
        shift = random.normal(0, 0.2, case.mean.shape) * np.sqrt(case.var)
        factor = np.exp(random.normal(0, 0.2, case.var.shape))
        return case._replace(mean=(case.mean + shift).astype("f4"), var=(case.var * factor).astype("f4"))

    cases = nets()
    found = compared(in_turn(cases), folded({name: moved(case) for name, case in cases.items()}), tmp_path)
    assert found is not None
    assert [fold.cause for fold in found.folds] == [FoldCause.OLDER_STATISTICS] * 4
    assert [fold.linear for fold in found.folds] == ["a.conv", "b.conv", "c.conv", "d.conv"]


def test_only_what_is_in_question_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("no weight is needed")

    monkeypatch.setattr("bnaudit.folding.recomputing.linear_layers", refuse)
    cases = nets()
    assert compared(in_turn(cases), in_turn(cases), tmp_path) is None
    np.savez(tmp_path / "other.npz", **norms_last({"a": cases["a"]}))  # type: ignore[arg-type]
    assert folds_of(tmp_path / "other.npz", tmp_path / "other.npz") is None


def test_weights_beyond_the_cap_are_a_remark(tmp_path: Path) -> None:
    cases = nets()
    for name, state in (("baseline.npz", in_turn(cases)), ("subject.npz", folded(cases))):
        np.savez(tmp_path / name, **state)  # type: ignore[arg-type]
    found = folds_of(
        tmp_path / "subject.npz", tmp_path / "baseline.npz", Caps(value_bytes=cases["a"].weight.nbytes - 1)
    )
    assert found is None  # nothing can be read, and a state dict shows nothing of a fold by itself
    big = {**cases, "a": net("conv")._replace(weight=np.repeat(cases["a"].weight, 2, axis=1))}
    for name, state in (("baseline.npz", in_turn(big)), ("subject.npz", folded(big))):
        np.savez(tmp_path / name, **state)  # type: ignore[arg-type]
    found = folds_of(
        tmp_path / "subject.npz", tmp_path / "baseline.npz", Caps(value_bytes=cases["a"].weight.nbytes + 128)
    )
    assert homes(found) == {"b": "b", "c": "c", "d": "d"}
    assert found is not None and found.unfound == ("a.bn",)
    assert "a.conv was not compared" in found.remarks[0]


def test_a_live_model_has_no_file_to_read(tmp_path: Path) -> None:
    cases = nets()
    np.savez(tmp_path / "baseline.npz", **in_turn(cases))  # type: ignore[arg-type]
    part = describe(tmp_path / "baseline.npz").parts[0]
    bare = Part(name="", carrier=Carrier.MODULE)
    assert folds(Side(None, bare, Caps()), Side(tmp_path / "baseline.npz", part, Caps()), match(bare, part)) is None
    shown = replace(bare, folded="nn.Identity in place of norms")
    found = folds(Side(None, shown, Caps()), Side(tmp_path / "baseline.npz", part, Caps()), match(shown, part))
    assert found is not None and len(found.unfound) == 4 and "live model" in found.remarks[0]


def test_two_norms_in_a_row_fold_into_one_layer(tmp_path: Path) -> None:
    cases = nets()
    behind = net("conv", 11)
    gain, shift = behind.gain, behind.beta - behind.mean * behind.gain
    weight, bias = right(cases["b"])
    subject = folded(cases) | {
        "b.conv.weight": weight * gain[:, None, None, None],
        "b.conv.bias": bias * gain + shift,
    }
    baseline: State = {}
    for key, value in in_turn(cases).items():
        baseline[key] = value
        if key == "b.bn.running_var":
            baseline |= {name.replace("b.bn", "b.second"): values for name, values in norm(behind, "b").items()}
    found = compared(baseline, subject, tmp_path)
    assert found is not None and found.unfound == ()
    assert {fold.cause for fold in found.folds} == {FoldCause.EQUAL}, found.folds
    assert [fold.layer for fold in found.folds] == ["a.bn", "b.bn", "b.second", "c.bn", "d.bn"]
    assert found.folds[1].detail == "equal to rounding, folded together with b.second"
