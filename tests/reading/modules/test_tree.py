"""The tree of a pickled module against the module itself."""

from __future__ import annotations

import importlib
import sys
from collections import OrderedDict
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pickled_modules import NoTensors, describe_saved, part_of, unpickled
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.optim.swa_utils import AveragedModel

from bnaudit.description import CUMULATIVE, Carrier, Evidence, NormKind, NormLayer, Part
from bnaudit.errors import UnreadableError
from bnaudit.reading.byte_source import ByteSource, MemorySource
from bnaudit.reading.checkpoints.torch_archive import read_archive
from bnaudit.reading.modules.tree import describe_module, is_module
from bnaudit.reading.pickles.machine import run
from bnaudit.reading.pickles.stand_ins import Call, Global, PickleDict
from bnaudit.reading.tensors.torch_tensors import TorchTensors, ZipStorages
from bnaudit.reading.zip_directory import ZipDirectory

KINDS = {
    nn.BatchNorm1d: NormKind.BATCH,
    nn.BatchNorm2d: NormKind.BATCH,
    nn.BatchNorm3d: NormKind.BATCH,
    nn.SyncBatchNorm: NormKind.SYNC_BATCH,
    nn.InstanceNorm1d: NormKind.INSTANCE,
    nn.InstanceNorm2d: NormKind.INSTANCE,
    nn.GroupNorm: NormKind.GROUP,
    nn.LayerNorm: NormKind.LAYER,
    nn.RMSNorm: NormKind.RMS,
}
FIELDS = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")


def assert_same_layer(layer: NormLayer, module: nn.Module, name: str) -> None:
    assert layer.name == name
    assert layer.kind is KINDS[type(module)]
    assert layer.evidence is Evidence.CLASS
    assert layer.class_name == f"{type(module).__module__}.{type(module).__qualname__}"
    assert layer.training is module.training
    assert layer.eps == module.eps
    if isinstance(module, _NormBase):
        assert layer.momentum == (CUMULATIVE if module.momentum is None else module.momentum)
        assert layer.affine is module.affine
        assert layer.tracks_statistics is module.track_running_stats
        assert layer.declared_channels == module.num_features
    for field in FIELDS:
        assert_same_tensor(layer, field, getattr(module, field, None))


def assert_same_tensor(layer: NormLayer, field: str, tensor: torch.Tensor | None) -> None:
    stored = getattr(layer, field)
    if tensor is None:
        assert stored is None
        return
    assert stored.name == (f"{layer.name}.{field}" if layer.name else field)
    assert f"torch.{stored.dtype}" == str(tensor.dtype)
    assert stored.requires_grad is tensor.requires_grad
    detached = tensor.detach()
    expected = (detached.double() if detached.is_floating_point() else detached).numpy()
    np.testing.assert_array_equal(stored.values, expected)


def assert_same_tree(part: Part, module: nn.Module) -> None:
    assert part.modules == tuple(name for name, _ in module.named_modules())
    norms = [(name, child) for name, child in module.named_modules() if type(child) in KINDS]
    assert [layer.name for layer in part.layers] == [name for name, _ in norms]
    for layer, (name, child) in zip(part.layers, norms, strict=True):
        assert_same_layer(layer, child, name)
    dropouts = [(name, child.p, child.training) for name, child in module.named_modules() if type(child) is nn.Dropout]
    found = [(entry.name, entry.probability, entry.training) for entry in part.mode_dependent]
    assert found == [entry for entry in dropouts if entry[1] > 0]
    inside_norms = {id(p) for _, child in norms for p in child.parameters()}
    outside = [p.requires_grad for p in module.parameters() if id(p) not in inside_norms]
    assert (part.trainable, part.frozen) == (outside.count(True), outside.count(False))


def trained(module: nn.Module, seed: int = 0) -> nn.Module:
    """Fill every tensor with values of its own."""
    torch.manual_seed(seed)
    for tensor in [*module.parameters(), *module.buffers()]:
        values = torch.randn(tensor.shape) if tensor.is_floating_point() else torch.randint(1, 10**6, tensor.shape)
        tensor.data.copy_(values)
    return module


def every_norm() -> nn.Module:
    return nn.Sequential(
        OrderedDict(
            first=nn.BatchNorm1d(3),
            untracked=nn.BatchNorm2d(2, track_running_stats=False),
            bare=nn.BatchNorm3d(2, affine=False, momentum=None),
            sync=nn.SyncBatchNorm(2, eps=1e-3),
            instance=nn.InstanceNorm1d(2),
            tracking=nn.InstanceNorm2d(2, affine=True, track_running_stats=True, momentum=0.3),
            group=nn.GroupNorm(2, 4),
            layer=nn.LayerNorm(4, bias=False),
            shapeless=nn.LayerNorm((2, 3), elementwise_affine=False),
            rms=nn.RMSNorm(4, eps=1e-6),
            block=nn.ModuleDict({"conv": nn.Conv2d(2, 2, 1), "bn": nn.BatchNorm2d(2), "drop": nn.Dropout(0.2)}),
        )
    )


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_every_norm_of_torch_is_read_as_it_is(tmp_path: Path, legacy: bool) -> None:
    module = trained(every_norm())
    module.block.bn.eval()
    module.block.bn.weight.requires_grad_(False)
    module.block.conv.bias.requires_grad_(False)
    part = part_of(module, tmp_path, legacy=legacy)
    assert_same_tree(part, module)
    assert part.carrier is Carrier.MODULE
    assert part.tensors == len([*module.parameters(), *module.buffers()])
    assert part.floating_dtypes == ("float32",)


def test_dtypes_are_the_stored_ones_and_half_precision_values_are_exact(tmp_path: Path) -> None:
    module = trained(nn.Sequential(nn.BatchNorm1d(3), nn.BatchNorm1d(2), nn.Linear(2, 2)))
    module[0].bfloat16()
    module[1].double()
    part = part_of(module, tmp_path)
    assert_same_tree(part, module)
    assert part.floating_dtypes == ("bfloat16", "float32", "float64")


def test_a_norm_may_be_the_root(tmp_path: Path) -> None:
    module = trained(nn.BatchNorm2d(3))
    assert_same_tree(part_of(module, tmp_path), module)


def test_a_model_without_norms_has_no_layers(tmp_path: Path) -> None:
    part = part_of(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), tmp_path)
    assert part.layers == () and part.mode_dependent == () and part.hidden == ()
    assert (part.tensors, part.trainable, part.frozen) == (2, 2, 0)


def test_nothing_to_train_is_none_trainable(tmp_path: Path) -> None:
    part = part_of(nn.ReLU(), tmp_path)
    assert (part.trainable, part.frozen) == (0, 0)


def test_gradients_that_the_pickle_does_not_mention_are_unknown(tmp_path: Path) -> None:
    """PyTorch before 0.4 rebuilt tensors without a flag."""
    module = StateOf("Container", {})
    module.parameters = {"weight": FlaglessTensor()}
    part = part_of(module, tmp_path)
    assert (part.tensors, part.trainable, part.frozen) == (1, None, None)


class FlaglessTensor:
    """Pickles as PyTorch 0.3 wrote tensors."""

    def __reduce__(self) -> tuple[object, ...]:
        return torch._utils._rebuild_tensor, (torch.zeros(3)._typed_storage(), 0, (3,), (1,))


def test_shared_modules_are_listed_once_under_their_first_name(tmp_path: Path) -> None:
    norm = nn.BatchNorm1d(2)
    module = nn.ModuleDict({"a": nn.Sequential(norm, nn.ReLU()), "b": norm, "c": nn.BatchNorm1d(2)})
    part = part_of(module, tmp_path)
    assert [layer.name for layer in part.layers] == ["a.0", "c"]
    assert_same_tree(part, module)


def test_shared_parameters_are_counted_once_as_trainable(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    module[1].weight = module[0].weight
    part = part_of(module, tmp_path)
    assert (part.trainable, part.frozen) == (1, 0)


def test_hooks_are_seen(tmp_path: Path) -> None:
    module = nn.Sequential(nn.BatchNorm1d(2), nn.BatchNorm1d(2), nn.BatchNorm1d(2))
    module[1].register_forward_hook(print)
    module[2].register_forward_pre_hook(print)
    assert [layer.hooked for layer in part_of(module, tmp_path).layers] == [False, True, True]


def test_training_flags_may_differ_and_the_roots_is_not_everyones(tmp_path: Path) -> None:
    module = nn.Sequential(nn.BatchNorm1d(2), nn.Dropout(), nn.Sequential(nn.BatchNorm1d(2))).eval()
    module[2][0].train()
    part = part_of(module, tmp_path)
    assert [layer.training for layer in part.layers] == [False, True]
    assert [entry.training for entry in part.mode_dependent] == [False]


# Classes that are gone, subclasses, foreign classes

SOURCE = """
import torch
from torch import nn

class OurNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.width = 3
        self.norm = OurBatchNorm(3)
        self.scale = Scaler(3)
        self.odd = Unusual(3)

class OurBatchNorm(nn.BatchNorm2d):
    pass

class Scaler(nn.BatchNorm2d):
    pass

class Unusual(nn.InstanceNorm2d):
    def __init__(self, n):
        super().__init__(n, affine=True, track_running_stats=True)
"""


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_classes_that_no_longer_exist_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, legacy: bool) -> None:
    source = tmp_path / "vanishing_net.py"
    source.write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    net = importlib.import_module("vanishing_net").OurNet()
    torch.save(net, tmp_path / "net.pt", _use_new_zipfile_serialization=not legacy)
    part = part_of(net, tmp_path, legacy=legacy)
    source.unlink()
    del sys.modules["vanishing_net"]
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("vanishing_net")
    assert [(layer.class_name, layer.kind) for layer in part.layers] == [
        ("vanishing_net.OurBatchNorm", NormKind.BATCH),
        ("vanishing_net.Scaler", NormKind.UNKNOWN),
        ("vanishing_net.Unusual", NormKind.UNKNOWN),
    ]
    assert all(layer.tracks_statistics and layer.affine and layer.declared_channels == 3 for layer in part.layers)


# Wrappers


def test_data_parallel_keeps_its_prefix(tmp_path: Path) -> None:
    module = nn.DataParallel(nn.Sequential(nn.BatchNorm1d(2)))
    part = part_of(module, tmp_path)
    assert part.wrappers == ("DataParallel",)
    assert [layer.name for layer in part.layers] == ["module.0"]
    assert_same_tree(part, module)


def test_an_averaged_model_says_over_how_many(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    average = AveragedModel(net)
    for _ in range(3):
        average.update_parameters(net)
    part = part_of(average, tmp_path)
    assert (part.wrappers, part.averaged_over) == (("AveragedModel",), 3)
    assert [layer.name for layer in part.layers] == ["module.1"]


def test_wrappers_are_named_outermost_first(tmp_path: Path) -> None:
    part = part_of(nn.DataParallel(AveragedModel(nn.Sequential(nn.BatchNorm1d(2)))), tmp_path)
    assert (part.wrappers, part.averaged_over) == (("DataParallel", "AveragedModel"), 0)


def test_a_net_with_a_child_called_module_is_no_wrapper(tmp_path: Path) -> None:
    assert part_of(nn.ModuleDict({"module": nn.BatchNorm1d(2)}), tmp_path).wrappers == ()


def test_a_compiled_module_is_unwrapped(tmp_path: Path) -> None:
    net = trained(nn.Sequential(nn.BatchNorm1d(2)))
    compiled = torch.compile(net, backend="eager")
    assert isinstance(compiled, torch._dynamo.eval_frame.OptimizedModule)
    part = part_of(CompiledStandIn(compiled), tmp_path)
    assert part.wrappers == ("OptimizedModule",)
    assert [layer.name for layer in part.layers] == ["_orig_mod.0"]
    np.testing.assert_array_equal(part.layers[0].var, net[0].running_var.double().numpy())


class CompiledStandIn:
    """Pickles as `OptimizedModule.__reduce__` says, without the compiler's own objects, which cannot be pickled."""

    def __init__(self, compiled: nn.Module) -> None:
        self.compiled = compiled

    def __reduce__(self) -> tuple[object, ...]:
        cls, (original, _) = self.compiled.__reduce__()
        return cls, (original, None)


def test_a_compiled_module_of_older_versions_is_unwrapped(tmp_path: Path) -> None:
    """PyTorch 2.0 to 2.6 pickled the `__dict__` of OptimizedModule."""
    part = part_of(StateOf("OptimizedModule", {"_orig_mod": nn.Sequential(nn.BatchNorm1d(2))}), tmp_path)
    assert part.wrappers == ("OptimizedModule",)
    assert [layer.name for layer in part.layers] == ["_orig_mod.0"]


class OptimizedModule:
    """Named like torch's."""


class StateOf:
    """Pickles as a module of a given class with given children."""

    def __init__(self, class_name: str, children: dict[str, object]) -> None:
        self.class_name = class_name
        self.children = children
        self.parameters: dict[str, object] = {}
        self.buffers: dict[str, object] = {}

    def __reduce__(self) -> tuple[object, ...]:
        state = {"_modules": self.children, "_parameters": self.parameters, "_buffers": self.buffers}
        return globals()[self.class_name], (), {"training": True, **state}


def test_a_graph_module_is_read_from_the_dict_it_reduces_to(tmp_path: Path) -> None:
    traced = torch.fx.symbolic_trace(nn.Sequential(nn.Conv1d(1, 2, 1), nn.BatchNorm1d(2), nn.Dropout(0.1)).eval())
    part = part_of(traced, tmp_path)
    assert [(layer.name, layer.training) for layer in part.layers] == [("1", False)]
    assert [entry.name for entry in part.mode_dependent] == ["2"]


# States without values, and what cannot be read


def test_lazy_norms_are_named_without_values(tmp_path: Path) -> None:
    (layer,) = part_of(nn.Sequential(nn.LazyBatchNorm2d()), tmp_path).layers
    assert (layer.kind, layer.channels) == (NormKind.BATCH, None)
    assert layer.weight is not None and layer.running_var is not None
    assert layer.weight.values is None and layer.weight.absence and not layer.weight.unread
    assert layer.running_var.values is None and layer.running_var.absence
    assert layer.counter == 0


def test_meta_tensors_are_named_without_values(tmp_path: Path) -> None:
    (layer,) = part_of(nn.Sequential(nn.BatchNorm2d(5, device="meta")), tmp_path).layers
    assert layer.running_mean is not None and layer.running_mean.shape == (5,)
    assert layer.running_mean.values is None and layer.running_mean.absence and not layer.running_mean.unread


def test_a_buffer_that_is_no_tensor_becomes_a_gap(tmp_path: Path) -> None:
    module = nn.Sequential(nn.BatchNorm1d(2))
    module[0]._buffers["running_mean"] = range(3)
    part, gaps = describe_saved(module, tmp_path)
    assert [gap.where for gap in gaps] == ["0.running_mean"]
    (layer,) = part.layers
    assert layer.running_mean is not None and layer.running_mean.unread


def test_a_script_module_in_the_tree_becomes_a_gap_and_the_rest_is_read(tmp_path: Path) -> None:
    children = {"scripted": RecursiveScriptModule(), "bn": nn.BatchNorm1d(2), "none": None}
    part, gaps = describe_saved(StateOf("Container", children), tmp_path)
    assert [(gap.where, "TorchScript" in gap.why, gap.hides_norms) for gap in gaps] == [("scripted", True, True)]
    assert [layer.name for layer in part.layers] == ["bn"]


class Container:
    """A module by its state alone."""


class RecursiveScriptModule:
    """Named like torch's."""


def test_a_module_with_a_state_of_its_own_becomes_a_gap(tmp_path: Path) -> None:
    part, gaps = describe_saved(StateOf("Container", {"odd": range(3)}), tmp_path)
    assert [gap.where for gap in gaps] == ["odd"]
    assert part.layers == ()


def test_quantized_convolutions_are_not_opened_and_hide_no_norms(tmp_path: Path) -> None:
    if not {"fbgemm", "x86", "qnnpack"} & set(torch.backends.quantized.supported_engines):
        pytest.skip("this build of torch has no engine for quantized models")
    net = nn.Sequential(torch.ao.nn.quantized.Conv2d(3, 4, 1), torch.ao.nn.quantized.BatchNorm2d(4))
    part, gaps = describe_saved(net, tmp_path)
    assert [(gap.where, gap.hides_norms) for gap in gaps] == [("0", False)]
    assert [layer.name for layer in part.layers] == ["1"]


def test_pruned_norms_keep_their_weight(tmp_path: Path) -> None:
    from torch.nn.utils import prune

    module = trained(nn.Sequential(nn.BatchNorm1d(4)))
    prune.l1_unstructured(module[0], "weight", amount=2)
    (layer,) = part_of(module, tmp_path).layers
    np.testing.assert_array_equal(layer.gamma, module[0].weight.detach().double().numpy())
    assert (layer.gamma == 0).sum() == 2


def test_frozen_norms_keep_their_affines_in_buffers(tmp_path: Path) -> None:
    (layer,) = part_of(nn.Sequential(FrozenBatchNorm2d(3)), tmp_path).layers
    assert (layer.kind, layer.channels, layer.eps) == (NormKind.FROZEN_BATCH, 3, None)
    assert layer.num_batches_tracked is None and layer.tracks_statistics is None
    np.testing.assert_array_equal(layer.gamma, np.ones(3))
    np.testing.assert_array_equal(layer.var, np.full(3, 2.0))
    assert layer.requires_grad is False


class FrozenBatchNorm2d(nn.Module):
    """As DETR writes it: no attributes, four buffers."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.ones(channels))
        self.register_buffer("bias", torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.full((channels,), 2.0))


# Old and hostile pickles


def test_before_0_4_tracking_and_counter_are_unknown(tmp_path: Path) -> None:
    """The state that PyTorch 0.3 wrote: no track_running_stats, OrderedDicts made from lists, protocol 2."""
    norm = old_module("torch.nn.modules.batchnorm.BatchNorm2d", num_features=3, eps=1e-5, momentum=0.1, affine=True)
    norm = norm.replace(b"<buffers>", b"(lp0\n" + entry("running_mean", b"N") + entry("running_var", b"N"))
    root = old_module("torch.nn.modules.container.Sequential").replace(b"<modules>", b"(lp0\n" + entry("0", norm))
    data = fill(root) + b"."
    value = unpickled(data, tmp_path)
    assert isinstance(value, Call) and is_module(value)
    part, gaps = describe_module(value, NoTensors(), "model")
    (layer,) = part.layers
    assert gaps == () and part.name == "model"
    assert (layer.name, layer.kind, layer.eps, layer.momentum) == ("0", NormKind.BATCH, 1e-5, 0.1)
    assert layer.tracks_statistics is None and layer.num_batches_tracked is None
    assert layer.affine is True and layer.training is True


def entry(key: str, value: bytes) -> bytes:
    """A `[key, value]` appended to the list on the stack, protocol 0."""
    return b"(lS'" + key.encode() + b"'\na" + value + b"aa"


def old_module(name: str, **attributes: object) -> bytes:
    """copy_reg._reconstructor(class, object, None) with its state, OrderedDicts as calls with lists of pairs."""
    module, _, cls = name.rpartition(".")
    pickle = f"ccopy_reg\n_reconstructor\n(c{module}\n{cls}\nc__builtin__\nobject\nNtR(d".encode()
    for key in ("_modules", "_parameters", "_buffers"):
        pickle += f"S'{key}'\nccollections\nOrderedDict\n(<{key[1:]}>tRs".encode()
    for key, value in {"training": True, **attributes}.items():
        literal = (
            f"I0{int(value)}\n"
            if isinstance(value, bool)
            else f"I{value}\n"
            if isinstance(value, int)
            else f"F{value}\n"
        )
        pickle += f"S'{key}'\n{literal}s".encode()
    return pickle + b"b"


def fill(pickle: bytes) -> bytes:
    for key in (b"<modules>", b"<parameters>", b"<buffers>"):
        pickle = pickle.replace(key, b"(lp0\n")
    return pickle


@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize("arguments", [1, 0], ids=["0.2 and 0.3", "0.1"])
def test_variables_from_before_0_4_are_read(tmp_path: Path, requires_grad: bool, arguments: int) -> None:
    module = StateOf("Container", {"bn": StateOf("BatchNorm2d", {})})
    norm = module.children["bn"]
    assert isinstance(norm, StateOf)
    norm.parameters = {"weight": OldParameter(torch.tensor([1.0, 2.5]), requires_grad, arguments), "bias": None}
    norm.buffers = {"running_mean": torch.zeros(2), "running_var": torch.ones(2)}
    (layer,) = part_of(module, tmp_path).layers
    assert layer.kind is NormKind.BATCH and layer.requires_grad is requires_grad
    np.testing.assert_array_equal(layer.gamma, [1.0, 2.5])


class BatchNorm2d:
    """A module by its state alone."""


class OldParameter:
    """Pickles as Variable did: the data as the argument and (requires_grad, volatile, hooks), or all of it as state."""

    def __init__(self, data: torch.Tensor, requires_grad: bool, arguments: int) -> None:
        self.reduced: tuple[object, ...] = (data,), (requires_grad, False, OrderedDict())
        if not arguments:
            self.reduced = (), (data, None, OrderedDict(), requires_grad, False)

    def __reduce__(self) -> tuple[object, ...]:
        return nn.Parameter, *self.reduced


def test_a_module_that_contains_itself_ends(tmp_path: Path) -> None:
    children: dict[str, object] = {"bn": nn.BatchNorm1d(2)}
    root = Looping(children)
    children["again"] = root
    part, gaps = describe_saved(root, tmp_path)
    assert [layer.name for layer in part.layers] == ["bn"]
    assert gaps == () and part.hidden == ()


class Looping:
    """A module by its state, which may contain itself."""

    def __init__(self, children: dict[str, object]) -> None:
        self.__dict__.update({"training": True, "_modules": children, "_parameters": {}, "_buffers": {}})


def test_a_chain_deeper_than_any_stack_is_walked_within_bounds() -> None:
    inner: object = None
    for _ in range(20_000):
        children, state = PickleDict(), PickleDict()
        children["x" * 10] = inner
        for key in ("_parameters", "_buffers"):
            state[key] = PickleDict()
        state["_modules"] = children
        call = Call(Global("a", "B"), ())
        call.state = state
        inner = call
    assert isinstance(inner, Call)
    part, gaps = describe_module(inner, NoTensors(), "")
    assert part.layers == ()
    assert ["too long" in gap.why for gap in gaps] == [True]


def test_objects_that_only_look_like_modules_are_none(tmp_path: Path) -> None:
    for saved in (nn.Linear(1, 1).state_dict(), [nn.Linear(1, 1)], {"_modules": {}}, range(3)):
        torch.save(saved, tmp_path / "x.pt")
        assert not is_module(saved_root(tmp_path / "x.pt"))


def saved_root(path: Path) -> object:
    with ByteSource.open(path) as source:
        return read_archive(source)[0].root


# Any tree


def leaves() -> st.SearchStrategy[nn.Module]:
    channels = st.integers(1, 4)
    return st.one_of(
        st.builds(nn.BatchNorm1d, channels, momentum=st.sampled_from([0.1, 0.01, None])),
        st.builds(nn.BatchNorm2d, channels, affine=st.booleans(), track_running_stats=st.booleans()),
        st.builds(nn.InstanceNorm2d, channels, affine=st.booleans(), track_running_stats=st.booleans()),
        st.builds(nn.LayerNorm, channels),
        st.builds(nn.Dropout, st.sampled_from([0.0, 0.5])),
        st.builds(nn.Linear, channels, channels),
    )


def containers(children: st.SearchStrategy[nn.Module]) -> st.SearchStrategy[nn.Module]:
    names = st.sampled_from(["bn", "layer1", "0", "module", "weight"])
    return st.one_of(
        st.lists(children, max_size=4).map(lambda modules: nn.Sequential(*modules)),
        st.dictionaries(names, children, max_size=4).map(nn.ModuleDict),
        children.map(lambda module: nn.Sequential(module, nn.ReLU(), module)),
    )


@settings(max_examples=40)
@given(
    module=st.recursive(leaves(), containers, max_leaves=12),
    seed=st.integers(0, 2**31),
    legacy=st.booleans(),
    modes=st.lists(st.booleans(), min_size=1, max_size=5),
)
def test_any_tree_is_read_as_torch_would(
    tmp_path: Path, module: nn.Module, seed: int, legacy: bool, modes: list[bool]
) -> None:
    trained(module, seed)
    for index, child in enumerate(module.modules()):
        child.training = modes[index % len(modes)]
        for parameter in child.parameters(recurse=False):
            parameter.requires_grad_(modes[(index + 1) % len(modes)])
    part = part_of(module, tmp_path, legacy=legacy)
    assert_same_tree(part, module)
    assert part.hidden == ()


def test_flipped_bytes_never_break_the_reader(tmp_path: Path) -> None:
    module = nn.Sequential(every_norm(), nn.LSTM(2, 2, 2, dropout=0.1))
    module.__dict__["hidden"] = [nn.Sequential(nn.BatchNorm1d(2)), {"a": nn.Dropout()}]
    torch.save(module, tmp_path / "saved.pt")
    with ByteSource.open(tmp_path / "saved.pt") as source:
        archive = ZipDirectory(source)
        whole = archive.open("saved/data.pkl")
        pickle = whole.read(0, whole.size)
        tensors = TorchTensors(ZipStorages(archive))
        random = Random(7)
        described = 0
        for _ in range(600):
            broken = bytearray(pickle)
            for _ in range(random.randint(1, 4)):
                broken[random.randrange(len(broken))] = random.randrange(256)
            try:
                root = run(MemorySource(bytes(broken), "broken", source)).root
            except UnreadableError:
                continue
            if is_module(root):
                assert isinstance(root, Call)
                describe_module(root, tensors, "")
                described += 1
    assert described > 50
