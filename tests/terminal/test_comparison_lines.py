"""A comparison in the terminal: the conclusion first; quiet when nothing differs, else what moved furthest first."""

from __future__ import annotations

from typing import Any

import pytest
from builders import batch_norm, part
from compared import trained
from compared_reports import (
    FOLDED,
    LAYERS,
    MOVED,
    all_of_them,
    came_back,
    compared_audit,
    equal,
    everything_moved,
    fold,
    folded,
    ran,
    run,
)

from bnaudit.comparison import FoldCause, Folds
from bnaudit.description import Carrier, NormKind
from bnaudit.ledger import ledger
from bnaudit.records import replace
from bnaudit.reports import View
from bnaudit.reports.terminal import RENDERER
from bnaudit.results import Audit, Report
from bnaudit.terminal.comparison_conclusion import conclusion, is_equal

HOSTILE = "bn\x1b[2J\n\u202e[red]<b>"


def shown(audit: Audit, width: int = 80, **view: Any) -> str:
    return RENDERER.render(Report(version="0", audits=(audit,)), View(width=width, **view))


def concluded(audit: Audit) -> tuple[str, ...]:
    assert audit.comparison is not None
    return conclusion(audit.comparison)


@pytest.mark.parametrize("name", all_of_them())
@pytest.mark.parametrize("width", [40, 80])
def test_no_line_is_wider_than_the_terminal_and_none_is_coloured(name: str, width: int) -> None:
    lines = shown(all_of_them()[name], width).splitlines()
    assert max(map(len, lines)) <= width
    assert not any("\x1b" in line for line in lines)


@pytest.mark.parametrize("name", all_of_them())
def test_it_opens_with_what_is_compared_and_the_conclusion(name: str) -> None:
    audit = all_of_them()[name]
    text = shown(audit, 200)
    assert text.splitlines()[0].startswith("trained.pt ")
    first = text.split("\n\n")[1]
    assert all(line in first for line in concluded(audit))
    assert text.index(concluded(audit)[0]) < text.index("exit ")


def test_equal_is_quiet() -> None:
    text = shown(equal())
    assert "  equal: 12 norm layers, bit for bit" in text.splitlines()
    assert "moved" not in text and "different" not in text
    assert "outputs not compared: no inputs were given → --inputs x.npz" in text


def test_norms_that_not_every_format_tells_are_missing_nowhere() -> None:
    unlike = [replace(trained("ln", mean=None, var=None, counter=None), kind=NormKind.LAYER)]
    audit = compared_audit(part([*LAYERS, *unlike], carrier=Carrier.GRAPH), part(LAYERS))
    assert concluded(audit) == ("equal: 12 norm layers, bit for bit",)
    assert audit.comparison is not None and is_equal(audit.comparison)


@pytest.mark.parametrize(("eps", "said"), [(1e-3, " with epsilon 0.001; none is stated"), (1e-5, ""), (1.0001e-5, "")])
def test_an_epsilon_that_was_solved_is_said_where_it_is_not_the_usual_one(eps: float, said: str) -> None:
    folds = tuple(fold(layer.name, eps=eps, eps_error=1e-9) for layer in LAYERS)
    audit = compared_audit(FOLDED, part(LAYERS), folds=Folds(folded="subject", folds=folds))
    assert concluded(audit)[0].endswith(f"rightly to rounding{said}")


def test_layers_of_another_shape_are_not_counted_as_equal() -> None:
    pruned = [trained(LAYERS[0].name, channels=6), *LAYERS[1:]]
    (said, *_) = concluded(compared_audit(part(pruned), part(LAYERS)))
    assert said == "the numbers that both have are equal in 11 norm layers, bit for bit; what differs: channels in 1"


def test_what_moved_furthest_stands_first_and_the_rest_is_counted() -> None:
    text = shown(everything_moved())
    assert "everything moved: weights and statistics of all 12 norm layers, nothing stood" in text
    assert "1 other layer changed shape" in text and "10×16" in text and "7×16" in text
    assert "median of 12" in text and "and 4 more (--all-layers shows them)" in text
    full = shown(everything_moved(), in_full=True)
    assert all(layer.name in full for layer in LAYERS) and "median" not in full
    gains = [float(line.split()[-4].replace(",", "")) for line in full.splitlines() if ".bn " in line and " σ " in line]
    shifts = [float(line.split()[-2]) for line in full.splitlines() if ".bn " in line and " σ " in line]
    largest = [max(pair) for pair in zip(gains, shifts, strict=True)]
    assert len(largest) == 12 and largest == sorted(largest, reverse=True)


def test_what_is_equal_and_what_is_not_stand_apart() -> None:
    mixed = [*LAYERS[:4], *MOVED[4:]]
    tuned = [trained("layer0.bn", gamma=[2.0] * 8), *mixed[1:]]
    audit = compared_audit(part(tuned), part(LAYERS))
    assert concluded(audit) == (
        "9 of 12 norm layers moved: weights and statistics of 8, weights alone of 1; the other 3 are equal bit for bit",
    )
    rows = {line.rsplit(maxsplit=3)[0].strip(): line.split()[-3:] for line in shown(audit).splitlines() if line}
    assert rows["weight, bias"] == ["3", "9", "0"]
    assert rows["mean, variance"] == ["4", "8", "0"]


@pytest.mark.parametrize("absent", ["statistics", "weights"])
def test_what_one_of_the_two_does_not_hold_is_not_counted_as_still(absent: str) -> None:
    gone: dict[str, Any] = {"gamma": None, "beta": None} if absent == "weights" else {"mean": None, "var": None}
    audit = compared_audit(part([trained("bn", seed=3, **gone)]), part([trained("bn", **gone)]))
    kept = "weights" if absent == "statistics" else "statistics"
    assert concluded(audit)[0] == f"the {kept} of the one norm layer moved"


def test_another_epsilon_under_the_same_numbers_is_no_equality() -> None:
    eps = [trained("bn1", eps=1e-3), trained("bn2", eps=1e-3)], [trained("bn1", eps=1e-5), trained("bn2", eps=1e-5)]
    audit = compared_audit(part(eps[0]), part(eps[1]))
    (said,) = concluded(audit)
    assert said == "the numbers that both have are equal in 2 norm layers, bit for bit; what differs: epsilon in 2"
    assert audit.comparison is not None and not is_equal(audit.comparison)


def test_layers_of_one_side_alone_are_counted() -> None:
    audit = compared_audit(part([*LAYERS[:5], trained("extra.bn", channels=3)]), part(LAYERS[:6]))
    assert concluded(audit) == (
        "equal: 5 norm layers, bit for bit",
        "1 norm layer only in the baseline, 1 norm layer only in the subject",
    )


def test_names_that_an_export_changed_are_said_to_be_paired_otherwise() -> None:
    renamed = [trained(f"backbone.stage{n}.bn", seed=n) for n in range(12)]
    text = shown(compared_audit(part(renamed), part([trained(f"stage{n}.bn", seed=n) for n in range(12)])))
    assert "equal: 12 norm layers, bit for bit, under other names" in text
    assert "12 layers paired by taking nothing for backbone." in " ".join(text.split())


def test_values_that_are_missing_are_compared_with_nothing() -> None:
    empty = [batch_norm(f"bn{n}", mean=None, var=None, gamma=None, beta=None, counter=None) for n in range(2)]
    (said,) = concluded(compared_audit(part(empty), part([batch_norm("bn0"), batch_norm("bn1")])))
    assert said == "nothing could be compared: no values of 2 norm layers are in both"


def test_folds_are_told_by_their_cause_equal_ones_in_one_line() -> None:
    text = shown(folded(FoldCause.EPSILON, FoldCause.EPSILON, FoldCause.PERMUTED), 120)
    assert (
        "not equal after folding: 12 norm layers are folded in the subject: epsilon in 2, permuted channels in 1"
        in (" ".join(text.split()))
    )
    assert "epsilon  layer0.bn in layer0.bn.conv: epsilon seen" in text
    assert "equal  layer{3..11}.bn ×9  residual at most 6e-08" in text
    half = concluded(folded(*[FoldCause.HALF_PRECISION] * 12))
    assert half == ("equal after folding: 12 norm layers are folded in the subject, rightly to half precision",)


def test_a_run_says_first_whether_the_reference_is_one() -> None:
    text = shown(ran(reference_in_eval=False, reference_why="layer1.bn is in training mode"), 120)
    lines = [line.strip() for line in text.splitlines()]
    run = next(n for n, line in enumerate(lines) if line.startswith("run: "))
    assert lines[run + 1] == (
        "the baseline itself is not in eval mode, it is no reference: layer1.bn is in training mode"
    )
    assert lines[run + 2] == "logits  differs by 1.5 at most of 4, floor 1e-05, furthest in inputs 4, 7"
    assert lines[run + 3 : run + 5] == ["decisions that flip: 3 of 16", "they part at layer3.bn (its own statistics)"]
    assert "layer4.bn:" not in text, "it took what differed already"


def test_of_several_outputs_those_that_differ_are_named() -> None:
    (pair,) = run().outputs
    audit = ran(outputs=(replace(pair, subject="boxes"), replace(pair, subject="scores", floor=2.0)), flips=0)
    assert concluded(audit)[-1] == "the outputs differ in boxes: they part at layer3.bn (its own statistics)"


def test_decisions_that_flip_are_told_once_also_where_only_rounding_differs() -> None:
    assert shown(ran(), 200).count("3 of 16") == 2, "in the conclusion and in the finding"
    (pair,) = run().outputs
    tied = shown(ran(outputs=(replace(pair, floor=2.0),), parts_at="", partings=()), 200)
    assert "the outputs are equal to rounding" in tied and "decisions that flip: 3 of 16" in tied


def test_outputs_within_rounding_are_called_equal() -> None:
    audit = came_back()
    assert concluded(audit) == ("came back as it was: what it holds, and 1 output",)
    assert "output  equal to rounding: differs by 1.5 at most of 4, floor 2" in shown(audit)
    assert audit.exit_code == 0


def test_what_came_back_otherwise_is_named_and_found() -> None:
    audit = came_back(changed=("bn1.running_mean",))
    assert concluded(audit) == ("1 thing came back otherwise",)
    assert "came back otherwise: bn1.running_mean" in shown(audit)
    assert [finding.rule for finding in audit.findings] == ["BN606"]
    assert audit.comparison is not None and not is_equal(audit.comparison)


def test_outputs_that_differ_are_in_the_conclusion_of_equal_states() -> None:
    audit = ran()
    assert concluded(audit) == (
        "equal: 12 norm layers, bit for bit",
        "the outputs differ, 3 of 16 decisions flip: they part at layer3.bn (its own statistics)",
    )
    assert audit.comparison is not None and not is_equal(audit.comparison)
    no_reference = concluded(ran(reference_in_eval=False))
    assert no_reference[-1] == "the outputs prove nothing: the baseline itself is not in eval mode"


def test_hostile_names_stay_names() -> None:
    layers = [trained(HOSTILE, seed=1)], [trained(HOSTILE, seed=2)]
    audit = compared_audit(part(layers[0], name=HOSTILE), part(layers[1], name=HOSTILE), path=f"{HOSTILE}.pt")
    for text in (shown(audit), shown(audit, color=True, in_full=True)):
        assert "\x1b[2J" not in text and "\u202e" not in text and "[red]" in text


def test_a_graph_without_norms_and_folds_says_that_nothing_was_compared() -> None:
    audit = compared_audit(part([], carrier=Carrier.GRAPH), part(LAYERS))
    assert concluded(audit)[0] == (
        "nothing could be compared: the subject holds no norm layer, and none was found folded"
    )
    assert audit.exit_code in (1, 3)


def test_models_that_have_little_in_common_are_said_to_first() -> None:
    audit = compared_audit(part(MOVED[:1]), part(LAYERS))
    assert concluded(audit) == (
        "11 norm layers only in the baseline",
        "weights and statistics moved in the one norm layer that both have",
    )


def test_a_pattern_of_layers_that_fits_nothing_is_pointed_out() -> None:
    audit, said = everything_moved(), "No norm layer has a name that was asked for."
    parts = audit.description.parts
    assert said in shown(replace(audit, ledger=ledger(parts, lambda name: name == "none")))
    assert said not in shown(replace(audit, ledger=ledger(parts, lambda name: True)))
