from __future__ import annotations

from builders import batch_norm, part, tensor

from bnaudit.description import Carrier, Evidence, NormKind
from bnaudit.ledger import ledger, mode, needs_exact_eps, state


def everything(name: str) -> bool:
    return True


def test_like_layers_share_a_row_and_a_faulty_one_gets_its_own() -> None:
    layers = [batch_norm(f"layer1.{i}.bn", counter=100 + i) for i in range(4)]
    layers.append(batch_norm("layer1.4.bn", var=(0.5, float("nan"), 1.0)))
    rows = ledger([part(layers)], everything)
    assert [(row.label, row.state) for row in rows] == [
        ("layer1.{0..3}.bn", "complete"),
        ("layer1.4.bn", "non-finite variance"),
    ]
    assert rows[0].counter == (100, 103)
    assert rows[0].channels == (3, 3)


def test_one_row_each_keeps_the_order_of_the_file() -> None:
    layers = [batch_norm(name) for name in ("b.1", "a.1", "b.0")]
    assert [row.label for row in ledger([part(layers)], everything, True)] == ["b.1", "a.1", "b.0"]


def test_only_covered_layers_are_listed() -> None:
    layers = [batch_norm("a.bn"), batch_norm("b.bn")]
    assert [row.label for row in ledger([part(layers)], lambda name: name.startswith("b"))] == ["b.bn"]


def test_channels_that_need_the_exact_epsilon() -> None:
    # √((0.004 + 1e-3)/(0.004 + 1e-5)) = 1.117 and √((0.006 + 1e-3)/(0.006 + 1e-5)) = 1.079
    assert needs_exact_eps([batch_norm(mean=(0, 0), var=(0.004, 0.006), gamma=None, beta=None)]) == 0.5
    assert needs_exact_eps([batch_norm(kind=NormKind.LAYER)]) is None


def test_mode_says_what_the_artifact_says() -> None:
    assert mode(part([], carrier=Carrier.STATE_DICT), batch_norm()) == "not saved"
    assert mode(part([], carrier=Carrier.MODULE), batch_norm(training=True)) == "training"
    assert mode(part([], carrier=Carrier.GRAPH), batch_norm(graph_training=True)) == "training, fixed"
    assert mode(part([], carrier=Carrier.MODULE), batch_norm(kind=NormKind.LAYER, training=True)) == "no modes"


def test_a_batch_norm_without_statistics_uses_the_batch_in_every_mode() -> None:
    module = part([], carrier=Carrier.MODULE)
    bare = batch_norm(mean=None, var=None, counter=None, training=False, tracks_statistics=False)
    assert mode(module, bare) == "batch, fixed"
    assert mode(module, batch_norm(training=False, tracks_statistics=False)) == "eval"


def test_only_instance_norms_that_track_have_modes() -> None:
    module = part([], carrier=Carrier.MODULE)
    assert mode(module, batch_norm(kind=NormKind.INSTANCE, training=False, tracks_statistics=False)) == "no modes"
    assert mode(module, batch_norm(kind=NormKind.INSTANCE, training=False, tracks_statistics=True)) == "eval"
    assert mode(module, batch_norm(kind=NormKind.FROZEN_BATCH, training=True)) == "no modes"


def test_saved_state_names_what_is_missing() -> None:
    assert state(batch_norm(mean=None)) == "no mean"
    assert state(batch_norm(mean=None, var=None)) == "no mean, no variance"
    assert state(batch_norm(mean=None, var=None, counter=None)) == "affine only"
    assert state(batch_norm(counter=None)) == "no counter"
    assert state(batch_norm(counter=None, kind=NormKind.FROZEN_BATCH)) == "complete"
    assert state(batch_norm(counter=None, evidence=Evidence.OPERATOR)) == "complete"
    meta = tensor("bn1.running_var", None, absence="on the meta device")
    assert state(batch_norm(var=meta)) == "variance without values"
    assert state(batch_norm(mean=meta, var=meta)) == "without values"
    assert state(batch_norm(mean=(float("nan"),), var=(float("inf"),))) == "non-finite"
