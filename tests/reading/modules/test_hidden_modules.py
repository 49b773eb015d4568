"""Modules that eval() does not reach, against eval() itself."""

from __future__ import annotations

import functools
from collections import OrderedDict, deque, namedtuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pickled_modules import NoTensors, part_of
from torch import nn

from bnaudit.description import HiddenModule
from bnaudit.reading.modules.tree import describe_module
from bnaudit.reading.pickles.stand_ins import Call, Global, PickleDict

Pair = namedtuple("Pair", "first second")


class Net(nn.Module):
    """Takes anything as attributes."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__()
        for name, value in attributes.items():
            setattr(self, name, value)


class Holder:
    """A foreign object."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Slotted:
    """A foreign object without a __dict__."""

    __slots__ = ("norm",)

    def __init__(self, norm: nn.Module) -> None:
        self.norm = norm


def hidden(module: nn.Module, folder: Path) -> tuple[HiddenModule, ...]:
    return part_of(module, folder).hidden


def paths(module: nn.Module, folder: Path) -> list[str]:
    return [entry.path for entry in hidden(module, folder)]


def bn() -> nn.BatchNorm1d:
    return nn.BatchNorm1d(2)


CASES: list[tuple[Any, list[str]]] = [
    ([bn(), bn()], ["x[0]", "x[1]"]),
    ((bn(),), ["x[0]"]),
    ({"bn": bn()}, ["x['bn']"]),
    ({3: bn()}, ["x[3]"]),
    ({(1, 2): bn()}, ["list(x.values())[0]"]),
    ({bn(): 1}, ["list(x)[0]"]),
    ({bn()}, ["list(x)[0]"]),
    (frozenset({bn()}), ["list(x)[0]"]),
    (deque([1, bn()]), ["x[1]"]),
    (OrderedDict(a=bn()), ["x['a']"]),
    ([{"deep": [None, (bn(),)]}], ["x[0]['deep'][1][0]"]),
    (Holder(norm=bn()), ["x.norm"]),
    (SimpleNamespace(norm=bn()), ["x.norm"]),
    (Slotted(bn()), ["x.norm"]),
    (Pair(bn(), 2), ["x[0]"]),
    (functools.partial(print, bn(), norm=bn()), ["x.args[0]", "x.keywords['norm']"]),
    (bn().eval, ["x.__self__"]),
]


@pytest.mark.parametrize(("value", "expected"), CASES, ids=[expected[0] for _, expected in CASES])
def test_where_a_hidden_module_is(tmp_path: Path, value: Any, expected: list[str]) -> None:
    assert paths(Net(x=value), tmp_path) == expected


@pytest.mark.parametrize("expected", [path for _, found in CASES for path in found])
def test_the_path_is_what_python_would_write(expected: str) -> None:
    value = next(value for value, found in CASES if expected in found)
    names = {"x": value, "list": list}
    assert isinstance(eval(expected, {}, names), nn.BatchNorm1d)


def test_the_owner_is_named_with_its_dotted_path(tmp_path: Path) -> None:
    module = nn.Sequential(OrderedDict(encoder=nn.Sequential(Net(norms=[bn()]))))
    assert paths(module, tmp_path) == ["encoder.0.norms[0]"]


def test_a_module_put_into_the_dict_directly_is_hidden(tmp_path: Path) -> None:
    module = Net()
    module.__dict__["teacher"] = nn.Sequential(bn())
    (found,) = hidden(module, tmp_path)
    assert (found.path, found.class_name) == ("teacher", "torch.nn.modules.container.Sequential")
    assert found.mode_dependent == ("teacher.0",)


def test_what_eval_misses_is_in_training_mode(tmp_path: Path) -> None:
    (found,) = hidden(Net(norms=[bn()]).eval(), tmp_path)
    assert found == HiddenModule(
        path="norms[0]",
        class_name="torch.nn.modules.batchnorm.BatchNorm1d",
        training=True,
        mode_dependent=("norms[0]",),
        in_training=True,
    )


def test_a_hidden_teacher_in_eval_mode_lists_no_layers(tmp_path: Path) -> None:
    (found,) = hidden(Net(teacher=[nn.Sequential(bn(), nn.Dropout()).eval()]), tmp_path)
    assert (found.training, found.mode_dependent, found.in_training) == (False, (), False)


def test_hidden_layers_without_modes_are_not_in_training(tmp_path: Path) -> None:
    (found,) = hidden(Net(heads=[nn.Linear(2, 2)]), tmp_path)
    assert (found.training, found.mode_dependent, found.in_training) == (True, (), False)


def test_the_same_object_registered_is_not_hidden(tmp_path: Path) -> None:
    """detectron2's ResNet keeps `self.stages`, a plain list, beside the registered stages."""
    stage = nn.Sequential(bn())
    assert paths(Net(res2=stage, stages=[stage], first=stage[0], lookup={"bn": stage[0]}), tmp_path) == []


def test_what_a_registered_module_hides_is_named_by_its_registered_path(tmp_path: Path) -> None:
    stage = Net(norms=[bn()])
    assert paths(Net(stages=[stage], res2=stage), tmp_path) == ["res2.norms[0]"]


def test_registered_anywhere_later_counts_too(tmp_path: Path) -> None:
    norm = bn()
    assert paths(nn.Sequential(Net(parents=[norm]), nn.Sequential(norm)), tmp_path) == []


def test_a_trainer_that_refers_back_hides_nothing(tmp_path: Path) -> None:
    module = Net(bn=bn())
    trainer = Holder(model=module, callbacks=[Holder(owner=module)], optimizers=[torch.optim.SGD(module.parameters())])
    module.trainer = trainer
    trainer.strategy = Holder(wrapped=nn.DataParallel(module), trainer=trainer)
    assert paths(module, tmp_path) == []


def test_modules_with_nothing_to_reach_are_not_listed(tmp_path: Path) -> None:
    module = Net(
        acts=[nn.ReLU(), nn.Sequential(nn.Flatten())], losses={"ce": nn.CrossEntropyLoss()}, none=[nn.Dropout(0)]
    )
    assert paths(module, tmp_path) == []


def test_a_hidden_dropout_is_listed(tmp_path: Path) -> None:
    (found,) = hidden(Net(drops=[nn.Dropout(0.5)]).eval(), tmp_path)
    assert (found.path, found.in_training) == ("drops[0]", True)


def test_a_part_of_another_hidden_module_is_that_ones(tmp_path: Path) -> None:
    inner = bn()
    module = Net(norms=[inner], nets=[nn.Sequential(inner, nn.Linear(2, 2))])
    (found,) = hidden(module, tmp_path)
    assert (found.path, found.mode_dependent) == ("nets[0]", ("nets[0].0",))


def test_what_a_hidden_module_hides_itself_is_listed_apart(tmp_path: Path) -> None:
    module = Net(nets=[nn.Sequential(bn(), Net(norms=[bn()]))])
    assert paths(module, tmp_path) == ["nets[0]", "nets[0].1.norms[0]"]


def test_the_same_hidden_module_is_listed_once(tmp_path: Path) -> None:
    norm = bn()
    assert paths(Net(a=[norm], b={"again": norm}), tmp_path) == ["a[0]"]


def test_a_registered_part_of_a_hidden_wrapper_is_not_its_problem(tmp_path: Path) -> None:
    """An unregistered wrapper around registered layers: eval() reaches all that has modes."""
    norm = bn()
    assert paths(Net(norm=norm, wrapped=[nn.Sequential(norm, nn.ReLU())]), tmp_path) == []


def test_cycles_through_lists_and_dicts_end(tmp_path: Path) -> None:
    ring: list[Any] = [bn()]
    ring.append({"ring": ring})
    assert paths(Net(ring=ring), tmp_path) == ["ring[0]"]


def test_hidden_norms_are_not_layers_of_the_part(tmp_path: Path) -> None:
    part = part_of(Net(norms=[bn()], bn=bn()), tmp_path)
    assert [layer.name for layer in part.layers] == ["bn"]
    assert part.tensors == 5


def test_a_hook_object_may_hide_a_module(tmp_path: Path) -> None:
    module = Net(bn=bn())
    module.bn.register_forward_hook(functools.partial(print, nn.Sequential(bn())))
    (path,) = paths(module, tmp_path)
    assert path.startswith("bn._forward_hooks[") and path.endswith("].args[0]")


def test_a_long_list_of_texts_and_numbers_costs_nothing_per_module(tmp_path: Path) -> None:
    shared = [str(number) for number in range(20_000)]
    module = Net(children_=nn.ModuleList(Net(vocabulary=shared, bn=bn()) for _ in range(50)))
    part = part_of(module, tmp_path)
    assert len(part.layers) == 50 and part.hidden == ()


@pytest.mark.parametrize("key", ["k" * 4000, "k"])
def test_many_modules_at_the_end_of_a_long_way_take_bounded_time(key: str) -> None:
    """Each path is cut: 20,000 of them written out in full would be 8 GB."""
    chain: object = [module_call("torch.nn.modules.dropout.Dropout", p=0.5, training=True) for _ in range(20_000)]
    for _ in range(100 if len(key) > 1 else 100_000):
        link = PickleDict()
        link[key] = chain
        chain = link
    part, gaps = describe_module(module_call("models.Net", way=chain), NoTensors(), "")
    assert len(part.hidden) == 20_000 and gaps == ()
    assert all(len(found.path) <= 301 and found.path.startswith("…") for found in part.hidden)


def module_call(class_name: str, **attributes: object) -> Call:
    state = PickleDict()
    for key, value in {**attributes, **{key: PickleDict() for key in ("_modules", "_parameters", "_buffers")}}.items():
        state[key] = value
    call = Call(Global(*class_name.rsplit(".", 1)), ())
    call.state = state
    return call


# Any tree: eval() of torch decides what is hidden


@st.composite
def nets(draw: st.DrawFn) -> Net:
    """A tree of nets whose norms stand registered, in containers, or both."""
    norms = [bn() for _ in range(draw(st.integers(1, 5)))]
    net_pool = [Net()]
    for norm in norms:
        owner = draw(st.sampled_from(net_pool))
        number = len(owner.__dict__) + len(owner._modules)
        way = draw(st.sampled_from(["child", "list", "dict", "holder", "both", "net"]))
        if way in ("child", "both"):
            owner.add_module(f"child{number}", norm)
        if way in ("list", "both"):
            owner.__dict__[f"list{number}"] = [norm]
        if way == "dict":
            owner.__dict__[f"dict{number}"] = {"norm": (norm,)}
        if way == "holder":
            owner.__dict__[f"holder{number}"] = Holder(norm=norm, owner=owner)
        if way == "net":
            inner = Net(norm=norm)
            owner.add_module(f"net{number}", inner)
            net_pool.append(inner)
    again = draw(st.lists(st.sampled_from(norms), max_size=2))
    draw(st.sampled_from(net_pool)).add_module("again", nn.ModuleList(again))
    root = net_pool[0]
    root.norms_for_the_test = [id(norm) for norm in norms]
    return root


@settings(max_examples=60)
@given(net=nets())
def test_hidden_is_exactly_what_eval_does_not_reach(tmp_path: Path, net: Net) -> None:
    net.train().eval()
    reached = {id(module) for module in net.modules()}
    part = part_of(net, tmp_path)
    unreached = [norm for norm in net.norms_for_the_test if norm not in reached]
    assert len(part.hidden) == len(unreached)
    for found in part.hidden:
        module = eval(found.path, {}, named(net))
        assert id(module) in unreached
        assert module.training and found.in_training


def named(net: Net) -> dict[str, Any]:
    """The root's attributes, children included, under their names."""
    return {**net.__dict__, **net._modules}
