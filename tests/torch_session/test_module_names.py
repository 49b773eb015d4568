"""Names of modules, also of those that nothing registers."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn

from bnaudit.description import NormKind
from bnaudit.torch_session.module_names import LayerNames


class Holder:
    """A plain object with a module in it."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def run(self, x: torch.Tensor) -> torch.Tensor:
        """A method that needs it."""
        return self.module(x)


def hiding(attribute: object) -> nn.Module:
    model = nn.Sequential(nn.Linear(2, 2), nn.Module())
    model[1].__dict__["kept"] = attribute
    return model


@pytest.mark.parametrize(
    ("wrapped", "path"),
    [
        (lambda m: m, "1.kept"),
        (lambda m: [None, m], "1.kept[1]"),
        (lambda m: {"a": (m,)}, "1.kept['a'][0]"),
        (lambda m: Holder(m), "1.kept.module"),
        (lambda m: [Holder({3: m})], "1.kept[0].module[3]"),
        (lambda m: functools.partial(map, m), "1.kept.args[0]"),
        (lambda m: functools.partial(map, by=[m]), "1.kept.keywords['by'][0]"),
        (lambda m: lambda x: m(x), "1.kept.__closure__['m']"),
        (lambda m: [lambda x, norm=m: norm(x)], "1.kept[0].__defaults__[0]"),
        (lambda m: Holder(m).run, "1.kept.__self__.module"),
    ],
)
def test_hidden_modules_are_named_as_python_would_write_the_way(wrapped: object, path: str) -> None:
    hidden = nn.Sequential(nn.BatchNorm1d(2))
    names = LayerNames.of(hiding(wrapped(hidden)))
    found = names.module(hidden[0])
    assert found is not None and found.hidden
    assert found.name == f"{path}.0" and names.module(hidden).name == path


def test_registered_modules_keep_their_names() -> None:
    model = nn.ModuleDict({"a": nn.Sequential(nn.BatchNorm1d(2))})
    model.again = [model["a"][0]]
    found = LayerNames.of(model).module(model["a"][0])
    assert (found.name, found.class_name, found.hidden) == ("a.0", "BatchNorm1d", False)
    assert LayerNames.of(model).module(model).name == ""


def test_cycles_end() -> None:
    ring: list[object] = [nn.BatchNorm1d(2)]
    ring.append(ring)
    model = hiding(ring)
    model[1].__dict__["back"] = model
    assert LayerNames.of(model).module(ring[0]).name == "1.kept[0]"


def test_a_module_that_appears_later_is_found_in_the_next_forward() -> None:
    model = nn.Sequential(nn.Module())
    names = LayerNames.of(model)
    late = nn.BatchNorm1d(2)
    assert names.innermost([model, model[0], late]).name == "<made in forward of 0>"
    model[0].__dict__["cache"] = [late]
    names.forward_begins()
    assert names.innermost([model, model[0], late]).name == "0.cache[0]"


def test_layers_are_known_by_the_addresses_of_their_tensors() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    names = LayerNames.of(model)
    assert names.layer_at(model[1].running_mean.data_ptr()) == "1"
    assert names.layer_at(torch.zeros(2).data_ptr()) is None
    assert names.layer_at(0) is None
    assert names.is_state(model[0].weight.t()) and not names.is_state(torch.zeros(2, 2))


@pytest.mark.parametrize(
    ("module", "kind"),
    [
        (nn.BatchNorm2d(2), NormKind.BATCH),
        (nn.SyncBatchNorm(2), NormKind.SYNC_BATCH),
        (nn.InstanceNorm1d(2), NormKind.INSTANCE),
        (nn.LayerNorm(2), NormKind.LAYER),
        (nn.GroupNorm(1, 2), NormKind.GROUP),
        (nn.RMSNorm(2), NormKind.RMS),
        (nn.Linear(2, 2), None),
    ],
)
def test_norm_modules_are_told_by_their_class(module: nn.Module, kind: NormKind | None) -> None:
    assert LayerNames.of(nn.Sequential(module)).kind(module) is kind


def test_only_modules_can_be_named() -> None:
    with pytest.raises(TypeError):
        LayerNames.of(lambda x: x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_dtypes_are_those_of_the_parameters(dtype: torch.dtype) -> None:
    assert LayerNames.of(nn.BatchNorm1d(2).to(dtype)).dtypes == {dtype}
