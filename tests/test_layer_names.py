from __future__ import annotations

import pytest

from bnaudit.layer_names import sibling_key, strip_wrappers


@pytest.mark.parametrize(
    ("stored", "bare"),
    [
        ("module.bn1", "bn1"),
        ("module._orig_mod.model.bn1", "bn1"),
        ("model.module.layer1.0.bn", "layer1.0.bn"),
        ("bn1", "bn1"),
        ("module.", "module."),
        ("modules.bn1", "modules.bn1"),
        ("", ""),
    ],
)
def test_wrappers_are_stripped_from_the_front_only(stored: str, bare: str) -> None:
    assert strip_wrappers(stored) == bare


def test_siblings_share_a_key() -> None:
    assert sibling_key("layer1.0.bn1") == sibling_key("layer1.12.bn1") == "layer1.#.bn1"
    assert sibling_key("layer1.0.bn1") != sibling_key("layer2.0.bn1")
