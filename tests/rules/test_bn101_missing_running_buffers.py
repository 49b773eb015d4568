from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from builders import batch_norm, description, hits, part, tensor
from measured import run_hits

from bnaudit.description import Carrier, Evidence, NormKind, NormLayer
from bnaudit.measurement import Loaded
from bnaudit.records import replace
from bnaudit.results import Confidence, Hit, Severity
from bnaudit.rules import load_rule

RULE = "bn101_missing_running_buffers"
run = partial(hits, RULE)


def bare(name: str, evidence: Evidence = Evidence.METADATA, version: int | None = 2, **fields: object) -> NormLayer:
    """A layer of which only a weight and a bias are stored."""
    settings: dict[str, Any] = {"kind": NormKind.UNKNOWN, "evidence": evidence, "metadata_version": version, **fields}
    return batch_norm(name, mean=None, var=None, counter=None, **settings)


def only(found: list[Hit]) -> Hit:
    (hit,) = found
    return hit


@pytest.mark.parametrize(
    ("left_out", "message"),
    [
        ({"mean": None}, "running_mean is missing"),
        ({"var": None}, "running_var is missing"),
        ({"mean": None, "var": None}, "running_mean and running_var are missing"),
        ({"mean": None, "counter": None}, "running_mean is missing"),
    ],
)
def test_a_torn_layer_is_proved(left_out: dict[str, None], message: str) -> None:
    hit = only(run(part([batch_norm("layer1.bn1", **left_out), batch_norm("layer1.bn2")])))
    assert (hit.layer, hit.message) == ("layer1.bn1", message)
    assert (hit.severity, hit.confidence) == (None, Confidence.HIGH)
    assert load_rule(RULE).severity is Severity.ERROR


@pytest.mark.parametrize("kind", [NormKind.BATCH, NormKind.SYNC_BATCH, NormKind.FROZEN_BATCH])
def test_the_class_of_a_pickled_module_proves_it(kind: NormKind) -> None:
    flag = None if kind is NormKind.FROZEN_BATCH else True
    layer = bare("bn1", Evidence.CLASS, None, kind=kind, tracks_statistics=flag)
    assert only(run(part([layer], carrier=Carrier.MODULE))).layer == "bn1"


def test_a_frozen_layer_needs_no_counter() -> None:
    assert run(part([batch_norm(kind=NormKind.FROZEN_BATCH, counter=None)])) == []


def test_a_layer_without_tracking_lacks_nothing() -> None:
    layer = bare("bn1", Evidence.CLASS, None, kind=NormKind.BATCH, tracks_statistics=False)
    assert run(part([layer], carrier=Carrier.MODULE)) == []


def test_a_graph_node_without_statistics_whose_tracking_is_unknown_is_silent() -> None:
    layer = bare("bn1", Evidence.OPERATOR, None, kind=NormKind.BATCH)
    assert run(part([layer], carrier=Carrier.PROGRAM)) == []


@pytest.mark.parametrize("version", [1, 3])
def test_a_class_of_another_version_keeps_what_it_likes_unless_its_like_keep_both(version: int) -> None:
    torn = batch_norm("bn1", var=None, counter=None, metadata_version=version)
    assert run(part([torn, batch_norm("bn2", metadata_version=2)])) == []
    hit = only(run(part([torn, batch_norm("bn2", counter=None, metadata_version=version)])))
    assert hit.layer == "bn1"


@pytest.mark.parametrize("which", ["mean", "var"])
def test_a_name_without_values_is_missing(which: str) -> None:
    absent = tensor(f"bn1.running_{which}", None, absence="on the meta device")
    hit = only(run(part([batch_norm(**{which: absent})])))
    assert hit.message == f"running_{which} is named but without values"


def test_an_emptied_tensor_is_missing() -> None:
    hit = only(run(part([batch_norm(mean=(), var=())])))
    assert hit.message == "running_mean and running_var are named but without values"


def test_a_tensor_that_could_not_be_read_is_a_gap_and_no_hit() -> None:
    unread = replace(tensor("bn1.running_mean", None, absence="sparse"), unread=True)
    assert run(part([batch_norm(mean=unread)])) == []


def test_a_stripped_layer_beside_complete_siblings_is_proved() -> None:
    complete = [batch_norm(f"layer1.{i}.bn1", metadata_version=2) for i in range(2)]
    hit = only(run(part([*complete, bare("layer2.0.bn1")], has_metadata=True)))
    assert hit.layer == "layer2.0.bn1"
    assert (hit.severity, hit.confidence, hit.undecided) == (None, Confidence.HIGH, "")


@pytest.mark.parametrize(
    "sibling",
    [
        batch_norm("layer1.0.bn2", metadata_version=2),
        batch_norm("layer1.0.bn1", metadata_version=None),
        batch_norm("stem.bn1", metadata_version=2),
    ],
)
def test_without_a_sibling_at_the_same_place_it_cannot_be_told(sibling: NormLayer) -> None:
    hit = only(run(part([sibling, bare("layer2.0.bn1")], has_metadata=True)))
    assert (hit.layer, hit.severity, hit.value) == (None, Severity.NOTE, 1)
    assert "give the model" in hit.undecided
    assert "InstanceNorm" in hit.message


def test_siblings_count_as_a_hint_where_no_class_version_is_left() -> None:
    siblings = [batch_norm(f"layer1.{i}.downsample.1") for i in range(2)]
    hit = only(run(part([*siblings, bare("layer2.0.downsample.1", Evidence.AFFINE, None)])))
    assert (hit.layer, hit.severity, hit.value) == (None, Severity.NOTE, 1)
    assert "sibling blocks have statistics there" in hit.message
    assert "give the model" in hit.undecided


def test_a_copy_of_the_parameters_says_where_the_statistics_are() -> None:
    shadow = [bare(f"bn{i}", Evidence.AFFINE, None) for i in range(3)]
    hit = only(run(part([batch_norm(f"bn{i}") for i in range(3)], "model"), part(shadow, "ema.shadow")))
    assert (hit.part, hit.layer, hit.severity, hit.value) == ("ema.shadow", None, Severity.NOTE, 3)
    assert hit.message == "parameters alone in 3 norm layers (bn{0,1,2}): part model has the statistics of these layers"
    assert hit.undecided == "part ema.shadow is parameters alone: load it over part model"


def test_an_average_of_parameters_beside_its_model_leaves_nothing_open() -> None:
    hit = only(run(part([batch_norm("head.bn1"), bare("ema_head_bn1", Evidence.AFFINE, None)])))
    assert (hit.severity, hit.undecided) == (Severity.NOTE, "")
    assert "parameters alone" in hit.message


def test_batch_norm_stripped_without_tracking_and_instance_norm_are_byte_identical() -> None:
    stripped = torch.nn.BatchNorm2d(3)
    untracked = torch.nn.BatchNorm2d(3, track_running_stats=False)
    instance = torch.nn.InstanceNorm2d(3, affine=True)
    kept = [
        {k: v for k, v in m.state_dict().items() if k in ("weight", "bias")} for m in (stripped, untracked, instance)
    ]
    for state in kept[1:]:
        assert list(state) == list(kept[0])
        assert all(torch.equal(state[key], kept[0][key]) for key in state)
    assert {m.state_dict()._metadata[""]["version"] for m in (stripped, untracked, instance)} == {2}


def test_a_file_whose_every_norm_is_affine_only_is_one_note() -> None:
    names = [f"layer{i}.{j}.norm1" for i in range(1, 5) for j in range(2)]
    hit = only(run(part([bare(name, Evidence.AFFINE, None) for name in names])))
    assert (hit.layer, hit.severity, hit.confidence, hit.value) == (None, Severity.NOTE, Confidence.LOW, 8)
    assert "absorbed, dropped or not batch norm, cannot tell" in hit.message
    assert "layer{1..4}.{0,1}.norm1" in hit.message
    assert hit.undecided


def test_names_alone_are_low_confidence_beside_complete_layers() -> None:
    layers = [batch_norm("stem.bn"), bare("head.bn1", Evidence.AFFINE, None), bare("head.norm", Evidence.AFFINE, None)]
    hit = only(run(part(layers)))
    assert (hit.confidence, hit.value) == (Confidence.LOW, 1)
    assert "(head.bn1)" in hit.message


@pytest.mark.parametrize("name", ["norm1", "ln_1", "encoder.norm", "subnet.0", "cabinet"])
def test_other_names_beside_complete_layers_say_nothing(name: str) -> None:
    assert run(part([batch_norm("stem.bn"), bare(name, Evidence.AFFINE, None)])) == []


@pytest.mark.parametrize(("complete", "name"), [("stem.1", "stem.4"), ("norm2", "norm3"), ("module.0.1", "module.3.4")])
def test_names_that_differ_in_numbers_alone_are_a_hint_without_a_class_version(complete: str, name: str) -> None:
    hit = only(run(part([batch_norm(complete), bare(name, Evidence.AFFINE, None)])))
    assert (hit.layer, hit.severity, hit.confidence, hit.value) == (None, Severity.NOTE, Confidence.LOW, 1)
    assert "layers named alike have statistics" in hit.message
    assert "give the model" in hit.undecided


def test_a_class_version_clears_what_is_named_alike() -> None:
    """LayerNorm is of version 1 where the metadata are kept."""
    assert run(part([batch_norm("norm1", metadata_version=2), bare("norm2", Evidence.AFFINE, 1)])) == []


@pytest.mark.parametrize(
    "layer",
    [
        bare("norm1", Evidence.AFFINE, 1),
        bare("norm1", Evidence.AFFINE, 3),
        bare("norm1", Evidence.METADATA, 2, beta=None),
        bare("norm", Evidence.AFFINE, None, kind=NormKind.LAYER),
        bare("norm", Evidence.AFFINE, None, kind=NormKind.GROUP),
        bare("norm", Evidence.AFFINE, None, kind=NormKind.RMS),
        bare("norm", Evidence.CLASS, None, kind=NormKind.INSTANCE, tracks_statistics=True),
    ],
)
def test_what_is_not_batch_norm_is_never_reported(layer: NormLayer) -> None:
    assert run(part([layer])) == []


def test_a_weight_that_is_not_one_dimensional_is_another_class() -> None:
    square = tensor("conv_bn.weight", [[1.0, 2.0], [3.0, 4.0]])
    assert run(part([replace(bare("conv_bn"), weight=square)])) == []


def test_each_part_has_its_own_note() -> None:
    found = run(part([bare("bn1")], "model"), part([bare("bn1")], "ema"))
    assert [hit.part for hit in found] == ["model", "ema"]


def test_the_pages_arithmetic() -> None:
    norm = torch.nn.BatchNorm1d(1, affine=False).double().eval()
    lost = norm(torch.tensor([[30.0]], dtype=torch.float64)).item()
    norm.running_mean.fill_(20)
    norm.running_var.fill_(25)
    assert norm(torch.tensor([[30.0]], dtype=torch.float64)).item() == pytest.approx(2, abs=1e-5)
    assert lost == pytest.approx(30, abs=1e-3)


@pytest.mark.parametrize(
    ("left_out", "ends"),
    [
        (
            {"mean": None, "var": None, "counter": None},
            "the given model tracks statistics here, the checkpoint has none",
        ),
        ({"var": None}, "the given model tracks statistics here, the checkpoint lacks a part of them"),
    ],
)
def test_the_given_model_proves_it(left_out: dict[str, None], ends: str) -> None:
    layer = batch_norm("bn1", evidence=Evidence.CLASS, tracks_statistics=True, **left_out)
    subject = description(part([layer], carrier=Carrier.MODULE))
    loaded = Loaded(model="net.py:build", matched=(), missing=("bn1",), unexpected=(), filled_counters=())
    hit = only(run_hits(RULE, loaded, subject=subject))
    assert hit.message.endswith(ends)
    assert "given model" not in only(run_hits(RULE, subject=subject)).message
    assert "given model" not in only(run_hits(RULE, loaded, subject=subject, part="ema")).message


def test_the_given_model_clears_what_a_state_dict_leaves_open() -> None:
    layer = bare("bn1", Evidence.CLASS, None, kind=NormKind.INSTANCE, tracks_statistics=False)
    loaded = Loaded(model="net.py:build", matched=("bn1",), missing=(), unexpected=(), filled_counters=())
    assert run_hits(RULE, loaded, subject=description(part([layer], carrier=Carrier.MODULE))) == []


@pytest.mark.parametrize("version", [None, 2])
@pytest.mark.parametrize("kind", [NormKind.UNKNOWN, NormKind.BATCH])
def test_a_torn_layer_needs_no_complete_one_of_its_version(version: int | None, kind: NormKind) -> None:
    assert only(run(part([batch_norm("bn1", var=None, kind=kind, metadata_version=version)]))).layer == "bn1"


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": NormKind.INSTANCE},
        {"kind": NormKind.GROUP},
        {"tracks_statistics": False},
    ],
)
def test_a_torn_layer_that_is_no_batch_norm_or_does_not_track_is_no_matter_of_this_rule(
    changes: dict[str, Any],
) -> None:
    assert run(part([batch_norm("bn1", var=None, **changes)])) == []


@pytest.mark.parametrize(
    ("kind", "evidence", "tracks"),
    [
        (NormKind.UNKNOWN, Evidence.CLASS, True),
        (NormKind.BATCH, Evidence.CLASS, None),
        (NormKind.FROZEN_BATCH, Evidence.OPERATOR, None),
    ],
)
def test_a_layer_of_which_nobody_says_that_it_keeps_statistics_lacks_none(
    kind: NormKind, evidence: Evidence, tracks: bool | None
) -> None:
    layer = bare("bn1", evidence, None, kind=kind, tracks_statistics=tracks)
    assert run(part([layer], carrier=Carrier.MODULE)) == []
    assert run(part([layer])) == []


def test_a_torn_layer_is_told_once_and_is_no_complete_sibling() -> None:
    torn = batch_norm("layer1.0.bn1", mean=None, metadata_version=2, evidence=Evidence.METADATA)
    proved, note = run(part([torn, bare("layer2.0.bn1")]))
    assert (proved.layer, proved.severity) == ("layer1.0.bn1", None)
    assert (note.layer, note.severity, note.value, note.limit) == (None, Severity.NOTE, 1, 0)
    assert "(layer2.0.bn1)" in note.message


def test_without_a_class_version_a_complete_sibling_of_version_two_proves_nothing() -> None:
    complete = batch_norm("layer1.0.bn1", metadata_version=2)
    hit = only(run(part([complete, bare("layer2.0.bn1", Evidence.AFFINE, None)])))
    assert (hit.layer, hit.severity, hit.confidence) == (None, Severity.NOTE, Confidence.LOW)


@pytest.mark.parametrize("kind", [NormKind.UNKNOWN, NormKind.BATCH])
def test_a_class_version_speaks_for_batch_norm_whatever_the_name(kind: NormKind) -> None:
    hit = only(run(part([batch_norm("stem.bn"), bare("head.norm", kind=kind)])))
    assert (hit.confidence, hit.value) == (Confidence.MEDIUM, 1)
    assert "InstanceNorm" in hit.message


def test_one_class_version_among_the_open_layers_is_enough_for_medium_confidence() -> None:
    layers = [batch_norm("stem.bn"), bare("head.bn1"), bare("tail.bn1", Evidence.AFFINE, None)]
    hit = only(run(part(layers)))
    assert (hit.confidence, hit.value) == (Confidence.MEDIUM, 2)
    assert "InstanceNorm" in hit.message


def test_one_sibling_is_no_hint_for_the_others() -> None:
    layers = [batch_norm("layer1.0.bn1"), *(bare(n, Evidence.AFFINE, None) for n in ("layer2.0.bn1", "head.bn9"))]
    hit = only(run(part(layers)))
    assert "named like batch norm, and nothing else says so" in hit.message


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("stem", "head", "neck"), "(stem, head, neck)"),
        (("stem", "head", "neck", "tail"), "(stem, head, neck, …)"),
        (("",), "(the model itself)"),
    ],
)
def test_the_note_lists_three_names(names: tuple[str, ...], shown: str) -> None:
    hit = only(run(part([bare(name) for name in names])))
    assert shown in hit.message


def test_a_copy_of_parameters_is_worth_a_note_at_zero() -> None:
    shadow = [bare("bn1", Evidence.AFFINE, None)]
    hit = only(run(part([batch_norm("bn1")], "model"), part(shadow, "ema.shadow")))
    assert (hit.limit, hit.value, hit.confidence) == (0, 1, Confidence.HIGH)


def test_one_layer_named_like_batch_norm_among_others_named_alike_is_enough() -> None:
    complete = [batch_norm("stem.1"), batch_norm("head.bn1")]
    alike = bare("stem.4", Evidence.AFFINE, None)
    hit = only(run(part([*complete, alike, bare("head.bn2", Evidence.AFFINE, None)])))
    assert hit.value == 2 and "named like batch norm, and nothing else says so" in hit.message
