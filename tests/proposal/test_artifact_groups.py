from __future__ import annotations

from pathlib import Path

from builders import batch_norm, description, part

from bnaudit.policy.artifact_paths import fits
from bnaudit.proposal.artifact_groups import groups
from bnaudit.proposal.folder_search import Model


def model(path: str, *names: str) -> Model:
    return Model(Path(path), description(part([batch_norm(name) for name in names])))


def patterns(*models: Model) -> dict[str, list[str]]:
    found = groups(models, Path())
    for group in found:
        assert {each.path for each in models if fits(each.path, group.pattern, Path().absolute())} == {
            each.path for each in group.models
        }
    return {group.pattern: [each.path.as_posix() for each in group.models] for group in found}


def test_like_models_of_one_folder_share_a_pattern() -> None:
    assert patterns(model("m/a.pt", "bn"), model("m/b.pt", "bn")) == {"m/*.pt": ["m/a.pt", "m/b.pt"]}


def test_a_common_start_tells_two_nets_of_one_folder_apart() -> None:
    found = patterns(model("m/res_1.pt", "bn"), model("m/res_2.pt", "bn"), model("m/vit.pt", "norm"))
    assert found == {"m/res_*.pt": ["m/res_1.pt", "m/res_2.pt"], "m/vit.pt": ["m/vit.pt"]}


def test_without_a_pattern_of_their_own_each_has_a_section() -> None:
    found = patterns(model("a.pt", "bn"), model("b.pt", "norm"), model("c.pt", "bn"))
    assert list(found) == ["a.pt", "b.pt", "c.pt"]


def test_folders_and_suffixes_are_kept_apart() -> None:
    found = patterns(model("a/x.pt", "bn"), model("a/y.pt", "bn"), model("a/b/x.pt", "bn"), model("a/x.onnx", "bn"))
    assert found == {
        "a/b/x.pt": ["a/b/x.pt"],
        "a/x.onnx": ["a/x.onnx"],
        "a/x.pt": ["a/x.pt"],
        "a/y.pt": ["a/y.pt"],
    }


def test_characters_of_patterns_in_names_stand_for_themselves() -> None:
    assert list(patterns(model("m[1]/a*.pt", "bn"), model("m1/ab.pt", "bn"))) == ["m1/ab.pt", "m[[]1]/a[*].pt"]
