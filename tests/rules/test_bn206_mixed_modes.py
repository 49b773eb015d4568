"""BN206: some layers train and others do not."""

from __future__ import annotations

from builders import batch_norm, hits, part

from bnaudit.description import Carrier, HiddenModule, ModeDependent, NormKind

RULE = "bn206_mixed_modes"


def test_a_mixture_is_one_hit_that_lists_both_sets() -> None:
    layers = [batch_norm(f"layer{i}.bn", training=False) for i in range(1, 5)]
    (hit,) = hits(RULE, part([*layers, batch_norm("head.0", training=True)], carrier=Carrier.MODULE))
    assert hit.message == "1 layer in training mode (head.0), 4 in eval mode (layer{1..4}.bn)"
    assert hit.layer is None
    assert hit.value == 1


def test_norms_in_eval_beside_dropout_that_trains_is_a_mixture() -> None:
    entry = ModeDependent(name="drop", kind="dropout", class_name="Dropout", probability=0.5, training=True)
    found = hits(RULE, part([batch_norm("bn", training=False)], carrier=Carrier.MODULE, mode_dependent=(entry,)))
    assert len(found) == 1


def test_one_hit_per_part() -> None:
    mixed = [batch_norm("a", training=True), batch_norm("b", training=False)]
    parts = (part(mixed, "model", Carrier.MODULE), part(mixed, "ema", Carrier.MODULE))
    assert [hit.part for hit in hits(RULE, *parts)] == ["model", "ema"]


def test_all_alike_is_silent() -> None:
    for mode in (True, False):
        layers = [batch_norm("a", training=mode), batch_norm("b", training=mode)]
        assert not hits(RULE, part(layers, carrier=Carrier.MODULE))


def test_unknown_modes_stand_in_neither_set() -> None:
    layers = [batch_norm("a", training=True), batch_norm("b", training=None)]
    assert not hits(RULE, part(layers, carrier=Carrier.MODULE))


def test_kinds_without_modes_stand_in_neither_set() -> None:
    without = {"mean": None, "var": None, "counter": None}
    layers = [
        batch_norm("bn", training=False),
        batch_norm("ln", kind=NormKind.LAYER, training=True, **without),
        batch_norm("in", kind=NormKind.INSTANCE, training=True, tracks_statistics=False, **without),
    ]
    no_drop = ModeDependent(name="drop", kind="dropout", class_name="Dropout", probability=0.0, training=True)
    assert not hits(RULE, part(layers, carrier=Carrier.MODULE, mode_dependent=(no_drop,)))


def test_hidden_modules_are_left_to_bn207() -> None:
    hidden = HiddenModule(
        path="norms[0]", class_name="BatchNorm1d", training=True, mode_dependent=("norms[0]",), in_training=True
    )
    layers = [batch_norm("bn", training=False), batch_norm("norms[0]", training=True)]
    assert not hits(RULE, part(layers, carrier=Carrier.MODULE, hidden=(hidden,)))


def test_in_a_graph_the_form_counts() -> None:
    layers = [batch_norm("a", graph_training=True), batch_norm("b", graph_training=False)]
    assert len(hits(RULE, part(layers, carrier=Carrier.GRAPH))) == 1


def test_in_a_trace_flags_do_not_count() -> None:
    layers = [batch_norm("a", training=True), batch_norm("b", training=False)]
    assert not hits(RULE, part(layers, carrier=Carrier.SCRIPT, traced=True))


def test_a_state_dict_is_silent() -> None:
    assert not hits(RULE, part([batch_norm("a", training=True), batch_norm("b", training=False)]))


def test_a_long_list_is_cut() -> None:
    names = ("stem", "alpha", "beta", "gamma", "delta", "tail")
    layers = [batch_norm(name, training=False) for name in names] + [batch_norm("head", training=True)]
    (hit,) = hits(RULE, part(layers, carrier=Carrier.MODULE))
    assert "(stem, alpha, beta, gamma and 2 more)" in hit.message


def test_a_model_that_is_one_norm_has_a_name_too() -> None:
    (hit,) = hits(RULE, part([batch_norm("", training=True), batch_norm("a", training=False)], carrier=Carrier.MODULE))
    assert hit.message.startswith("1 layer in training mode (the model itself), ")
    assert (hit.value, hit.limit) == (1, 0)
