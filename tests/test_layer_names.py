from __future__ import annotations

import pytest
import torch

from bnaudit.layer_names import module_of_node, sibling_key, spellings, strip_wrappers


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("layer1.0.bn1", "layer1.0.bn1"),
        ("module.layer1.0.bn1", "layer1.0.bn1"),
        ("_orig_mod.module.layer1.0.bn1", "layer1.0.bn1"),
        ("module.model.bn1", "bn1"),
        ("layer1._orig_mod.bn1", "layer1.bn1"),
        ("_fsdp_wrapped_module.layer1._checkpoint_wrapped_module.bn1", "layer1.bn1"),
        ("backbone.model.bn1", "backbone.model.bn1"),
        ("modules.bn1", "modules.bn1"),
        ("module", ""),
        ("", ""),
    ],
)
def test_wrapper_prefixes_are_stripped(name: str, bare: str) -> None:
    assert strip_wrappers(name) == bare


@pytest.mark.parametrize(
    ("node", "module"),
    [
        ("/layer1/layer1.0/bn1/BatchNormalization", "layer1.0.bn1"),
        ("/batchwise/MatMul_1", "batchwise"),
        ("/MatMul_1", ""),
        ("node_linear_3", ""),
        ("layer1/bn1", ""),
        ("", ""),
    ],
)
def test_a_node_names_the_module_that_an_exporter_wrote_into_it(node: str, module: str) -> None:
    assert module_of_node(node) == module


def test_patterns_may_mean_a_node_by_its_module() -> None:
    node = "/module/blocks/blocks.0/attn/MatMul"
    assert spellings(node) == {node, "module.blocks.0.attn", "blocks.0.attn"}
    assert spellings("module.bn1") == {"module.bn1", "bn1"}
    assert spellings("") == {""}


def test_what_torch_itself_wraps_is_unwrapped() -> None:
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.BatchNorm2d(4))
    wrapped = torch.nn.DataParallel(torch.compile(net))
    names = [name for name, module in wrapped.named_modules() if isinstance(module, torch.nn.BatchNorm2d)]
    assert names == ["module._orig_mod.1"]
    assert strip_wrappers(names[0]) == "1"


@pytest.mark.parametrize(
    ("one", "other", "siblings"),
    [
        ("layer1.0.bn1", "layer1.1.bn1", True),
        ("layer1.0.bn1", "layer4.2.bn1", True),
        ("module.layer1.0.bn1", "layer2.0.bn1", True),
        ("layer1.0.downsample.1", "layer2.0.downsample.1", True),
        ("layer1.0.bn1", "layer1.0.bn2", False),
        ("features.1", "features.4", False),
        ("fnet.0.norm", "cnet.0.norm", False),
        ("layer1.0.bn1", "layer1.bn1", False),
    ],
)
def test_sibling_blocks(one: str, other: str, siblings: bool) -> None:
    assert (sibling_key(one) == sibling_key(other)) is siblings
