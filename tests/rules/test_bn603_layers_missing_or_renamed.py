from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from builders import part
from compared import compared_hits, comparison, trained

from bnaudit.comparison import Fold, FoldCause, Folds, Matching, Pair, PairedBy, Rename
from bnaudit.description import Carrier, Evidence, NormKind, NormLayer
from bnaudit.plugins import load
from bnaudit.records import replace
from bnaudit.results import Confidence, Severity

run = partial(compared_hits, "bn603_layers_missing_or_renamed")
NAMES = ("bn1", "layer1.0.bn1", "layer1.0.bn2", "layer2.0.bn1")


def layers(prefix: str = "", *leave_out: str) -> list[NormLayer]:
    return [trained(prefix + name, 4 + at, seed=at) for at, name in enumerate(NAMES) if name not in leave_out]


def test_a_missing_layer_is_found_on_either_side() -> None:
    (hit,) = run(part(layers("", "layer2.0.bn1")), part(layers()))
    assert (hit.layer, hit.message) == ("layer2.0.bn1", "a batch norm of 7 channels in the baseline, not here")
    (hit,) = run(part(layers()), part(layers("", "layer2.0.bn1")))
    assert (hit.layer, hit.message) == ("layer2.0.bn1", "a batch norm of 7 channels here, not in the baseline")


def test_a_graph_may_leave_out_what_is_not_used() -> None:
    (hit,) = run(part(layers("", "layer2.0.bn1"), carrier=Carrier.GRAPH), part(layers()))
    assert hit.confidence is Confidence.MEDIUM and "auxiliary head" in hit.advice
    (hit,) = run(part(layers(), carrier=Carrier.GRAPH), part(layers("", "layer2.0.bn1")))
    assert hit.confidence is Confidence.HIGH, "the graph uses what the state dict lacks"


@pytest.mark.parametrize("kind", [NormKind.LAYER, NormKind.GROUP, NormKind.RMS, NormKind.INSTANCE, NormKind.UNKNOWN])
def test_norms_that_not_every_format_tells_are_not_missing(kind: NormKind) -> None:
    norm = trained("norm1", 16, kind=kind, mean=None, var=None, counter=None)
    for one, other in (([*layers(), norm], layers()), ([norm], [])):
        assert run(part(one), part(other)) == []
        assert run(part(other), part(one)) == []


@pytest.mark.parametrize("carrier", [Carrier.GRAPH, Carrier.PROGRAM, Carrier.SCRIPT])
def test_a_frozen_norm_is_a_product_and_a_sum_in_code(carrier: Carrier) -> None:
    frozen = [*layers(), trained("stem.bn", 16, kind=NormKind.FROZEN_BATCH)]
    assert run(part(layers(), carrier=carrier), part(frozen)) == []
    assert run(part(frozen), part(layers(), carrier=carrier)) == []
    (hit,) = run(part(layers()), part(frozen))
    assert hit.layer == "stem.bn"


def test_a_prefix_is_proposed() -> None:
    (hit,) = run(part(layers("backbone.")), part(layers()))
    assert (hit.layer, hit.severity, hit.value) == (None, None, "`backbone.` left out")
    assert hit.message == "4 layers have other names than in the baseline; the same after `backbone.` left out"
    (hit,) = run(part(layers()), part(layers("backbone.")))
    assert hit.value == "`backbone.` in front"


def test_a_graph_needs_no_names() -> None:
    (hit,) = run(part(layers("backbone."), carrier=Carrier.PROGRAM), part(layers()))
    assert hit.severity is Severity.NOTE


def test_names_without_a_common_rule_are_told_too() -> None:
    foreign = [trained(letter, 4 + at, seed=9 + at) for at, letter in enumerate(("pq", "rs", "xyz", "w"))]
    (hit,) = run(part(foreign), part(layers()))
    assert hit.severity is None and hit.message.startswith("4 layers have other names than in the baseline")


def test_names_that_an_exporter_counted_are_no_difference() -> None:
    counted = [
        trained(f"BatchNormalization_{at}", 4 + at, seed=9 + at, evidence=Evidence.OPERATOR) for at in range(len(NAMES))
    ]
    assert run(part(counted, carrier=Carrier.GRAPH), part(layers())) == []
    assert run(part(layers()), part(counted, carrier=Carrier.GRAPH)) == []


def test_wrappers_are_no_difference() -> None:
    for prefix in ("module.", "_orig_mod.", "model.", "module._orig_mod."):
        assert run(part(layers(prefix)), part(layers())) == []


def test_the_same_layers_are_silent() -> None:
    assert run(part(layers()), part(layers())) == []
    assert run(part([]), part([])) == []


def test_nothing_in_common_is_one_finding() -> None:
    strangers = [trained(f"n{at}", 100 + at, seed=50 + at) for at in range(3)]
    (hit,) = run(part(strangers), part(layers()))
    assert hit.message == "no norm layer in common: 4 in the baseline, 3 here"
    (hit,) = run(part([]), part(layers()))
    assert hit.message == "no norm layer in common: 4 in the baseline, none here"


def test_a_folded_side_lacks_nothing() -> None:
    assert run(part([], folded="52 of 52 convolutions carry a bias"), part(layers())) == []
    assert run(part(layers()), part([], folded="52 of 52 convolutions carry a bias")) == []
    (hit,) = run(part(layers("", "bn1"), folded="some do"), part(layers()))
    assert hit.layer == "bn1", "norms are left, and folding is a guess then"


def test_what_was_found_in_a_convolution_is_not_missing() -> None:
    fold = Fold(
        layer="bn1",
        linear="conv1",
        into="conv1",
        operator="conv",
        before=False,
        cause=FoldCause.EQUAL,
        detail="",
    )
    folds = Folds(folded="subject", folds=(fold,))
    assert run(part(layers("", "bn1")), part(layers()), folds=folds) == []
    (hit,) = run(part(layers("", "bn1", "layer2.0.bn1")), part(layers()), folds=folds)
    assert hit.layer == "layer2.0.bn1"


def test_a_layer_of_unknown_channels_is_no_counterpart_by_order() -> None:
    unknown = trained("other", mean=None, var=None, gamma=None, beta=None, counter=1)
    hits = run(part([*layers("", "bn1"), unknown]), part(layers()))
    assert {hit.layer for hit in hits} == {"bn1", "other"}
    assert [hit.message for hit in hits if hit.layer == "other"] == ["a batch norm here, not in the baseline"]


def test_exchanged_layers_would_load_in_silence() -> None:
    exchanged = [trained("a", seed=2), trained("b", seed=1)]
    (hit,) = run(part(exchanged), part([trained("a", seed=1), trained("b", seed=2)]))
    assert hit.message.endswith("; loaded by name, 2 would get the values of another layer")


def opaque(name: str = "forward.batch_norm", kind: NormKind = NormKind.BATCH) -> NormLayer:
    """A norm in code whose tensors the file does not hold as such."""
    return NormLayer(name=name, kind=kind, evidence=Evidence.OPERATOR)


def test_a_layer_without_tensors_is_neither_missing_nor_added() -> None:
    code = part([*layers("", "bn1"), opaque()], carrier=Carrier.SCRIPT)
    assert run(code, part(layers())) == [] and run(part(layers()), code) == []
    more = part([*layers("", "bn1"), opaque(), opaque("n", NormKind.INSTANCE)], carrier=Carrier.SCRIPT)
    assert run(more, part(layers())) == []
    plain = trained("b2", gamma=np.ones(8), beta=np.zeros(8), mean=None, var=None, counter=None)
    assert run(part([*layers(), plain], carrier=Carrier.GRAPH), part(layers())) == []
    other = part([*layers("", "bn1"), opaque(kind=NormKind.INSTANCE)], carrier=Carrier.SCRIPT)
    (hit,) = run(other, part(layers()))
    assert hit.layer == "bn1", "no instance norm is a batch norm"


def test_hostile_names_cannot_write_to_the_terminal() -> None:
    (hit,) = run(part(layers("\x1b[2J\n.")), part(layers()))
    assert hit.message.isprintable() and "x1b" in hit.message


def test_a_baseline_without_norms_is_one_finding_too() -> None:
    (hit,) = run(part(layers()), part([]))
    assert hit.message == "no norm layer in common: none in the baseline, 4 here"


def test_code_on_either_side_is_not_loaded_by_name() -> None:
    (hit,) = run(part(layers("backbone.")), part(layers(), carrier=Carrier.PROGRAM))
    assert hit.severity is Severity.NOTE and hit.advice.startswith("nothing to do")
    (hit,) = run(part(layers("backbone.")), part(layers()))
    assert hit.severity is None and hit.advice.startswith("rename the keys")


def test_one_layer_with_another_name_is_told_as_one() -> None:
    (hit,) = run(part([trained("pq")]), part([trained("bn1")]))
    assert hit.message.startswith("1 layer has other names than in the baseline")


def test_what_no_rule_renames_says_so() -> None:
    rule = load("bnaudit.rules", "bn603_layers_missing_or_renamed")
    pairs = tuple(
        Pair(subject=trained(one), baseline=trained(other), by=PairedBy.VALUES) for one, other in ("ab", "cd")
    )
    compared = comparison(part([]), part([]))
    (hit,) = rule._renamed(replace(compared, matching=Matching(pairs=pairs)))
    assert hit.value == "no common rule"
    assert hit.message == "2 layers have other names than in the baseline, by no common rule"


@pytest.mark.parametrize(("count", "ends"), [(4, "`b3` → `c3`"), (5, "`b3` → `c3`, …")])
def test_four_renamings_are_written_out(count: int, ends: str) -> None:
    rule = load("bnaudit.rules", "bn603_layers_missing_or_renamed")
    renames = tuple(Rename(old=f"b{at}", new=f"c{at}", layers=1) for at in range(count))
    assert rule._said(renames).startswith("; the same after `b0` → `c0`, ") and rule._said(renames).endswith(ends)
