"""ONNX files as users have them: exports of both PyTorch exporters and the onnx package's own models."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test.case.node
import pytest
import torch
from onnx import numpy_helper
from onnx_builders import PARAMETERS, describe, describe_file, model, node
from torch import nn

from bnaudit.description import Carrier, Evidence, NormKind, NormLayer, Part

PACKAGE = Path(onnx.__file__).parent / "backend" / "test" / "data"
Exported = Callable[..., tuple[Part, nn.Module]]


class Standardized(nn.Conv2d):
    """Weight standardization as the big transfer models write it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.weight.view(1, self.out_channels, -1)
        weight = nn.functional.batch_norm(rows, None, None, training=True).view_as(self.weight)
        return nn.functional.conv2d(x, weight, self.bias)


class ByHand(nn.Module):
    """Batch norm without statistics, written out."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        var, mean = torch.var_mean(x, dim=(0, 2, 3), keepdim=True, unbiased=False)
        return (x - mean) * torch.rsqrt(var + 1e-3)


def network(kind: str) -> nn.Module:
    torch.manual_seed(7)
    norms: dict[str, Callable[[], nn.Module]] = {
        "batch": lambda: nn.BatchNorm2d(4, eps=1e-3, momentum=0.03),
        "batch without statistics": lambda: nn.BatchNorm2d(4, track_running_stats=False),
        "instance": lambda: nn.InstanceNorm2d(4, affine=True),
        "instance with statistics": lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
        "group": lambda: nn.GroupNorm(2, 4),
        "layer": lambda: nn.LayerNorm(8),
        "rms": lambda: nn.RMSNorm(8, eps=1e-6),
        "weights": lambda: Standardized(4, 4, 1),
        "by hand": ByHand,
    }
    net = nn.Sequential(norms[kind](), nn.Conv2d(4, 4, 3), nn.Dropout(0.3))
    for tensor in (*net.parameters(), *net.buffers()):
        if tensor.is_floating_point():
            nn.init.uniform_(tensor.detach(), 0.1, 2.0)
    return net


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """Exports a network of one kind and describes the file; each export is made once."""
    made: dict[Any, tuple[Part, nn.Module]] = {}
    folder = tmp_path_factory.mktemp("exports")

    def export(kind: str, *, dynamo: bool, training: bool = False, opset: int | None = None) -> tuple[Part, nn.Module]:
        key = (kind, dynamo, training, opset)
        if key not in made:
            net = network(kind).train(training)
            path = folder / f"{len(made)}.onnx"
            state = {name: tensor.clone() for name, tensor in net.state_dict().items()}
            settings: dict[str, Any] = {"dynamo": dynamo}
            if dynamo:
                settings |= {"optimize": False, "dynamic_shapes": ({0: torch.export.Dim.DYNAMIC},), "verbose": False}
            else:
                mode = torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.EVAL
                settings |= {"do_constant_folding": False, "training": mode, "opset_version": opset}
                settings |= {"input_names": ["x"], "dynamic_axes": {"x": {0: "N"}}}
            logging.disable(logging.WARNING)
            with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
                warnings.simplefilter("ignore")
                torch.onnx.export(net, (torch.randn(2, 4, 8, 8),), str(path), **settings)
            logging.disable(logging.NOTSET)
            net.load_state_dict(state)
            description = describe_file(path)
            assert not description.gaps
            assert description.artifact.producer is not None
            assert description.artifact.producer.startswith("pytorch")
            made[key] = (description.parts[0], net)
        return made[key]

    return export


def only(part: Part) -> NormLayer:
    (layer,) = part.layers
    return layer


def check_values(layer: NormLayer, module: nn.Module) -> None:
    """Names, types and values are those of the module's own tensors."""
    state = {f"0.{name}": tensor for name, tensor in module.state_dict().items() if "num_batches" not in name}
    assert {tensor.name for tensor in layer.tensors} == set(state)
    for tensor in layer.tensors:
        expected = state[tensor.name]
        assert tensor.values is not None, tensor.absence
        assert (tensor.dtype, tensor.shape) == ("float32", tuple(expected.shape))
        np.testing.assert_array_equal(tensor.values, expected.double().numpy())


def norm_of(net: nn.Module) -> nn.Module:
    assert isinstance(net, nn.Sequential)
    return net[0]


EXPORTERS = pytest.mark.parametrize("dynamo", [False, True], ids=["TorchScript", "dynamo"])


@EXPORTERS
def test_batch_norm_exported_in_eval_mode(dynamo: bool, exported: Exported) -> None:
    part, net = exported("batch", dynamo=dynamo)
    layer = only(part)
    assert (part.carrier, layer.kind, layer.evidence, layer.name) == (
        Carrier.GRAPH,
        NormKind.BATCH,
        Evidence.OPERATOR,
        "0",
    )
    assert (layer.graph_training, layer.statistics_from_input, layer.tracks_statistics) == (False, False, True)
    assert (layer.eps, layer.momentum, layer.declared_channels) == (1e-3, 0.03, 4)
    check_values(layer, norm_of(net))
    (given,) = part.inputs
    assert given.shape is not None
    assert isinstance(given.shape[0], str)
    assert part.mode_dependent == ()


@pytest.mark.parametrize("opset", [9, 12, 13, 14, 17])
def test_batch_norm_and_dropout_exported_in_training_mode(opset: int, exported: Exported) -> None:
    part, _ = exported("batch", dynamo=False, training=True, opset=opset)
    layer = only(part)
    assert (layer.graph_training, layer.statistics_from_input, layer.name) == (True, None, "0")
    assert layer.momentum == 0.03
    assert layer.weight is not None
    dropping = [entry.probability for entry in part.mode_dependent if entry.graph_training]
    assert dropping == ([0.3] if opset >= 12 else [])


def test_the_dynamo_exporter_leaves_dropout_in_training_mode(exported: Exported) -> None:
    part, _ = exported("batch", dynamo=True, training=True)
    (entry,) = part.mode_dependent
    assert (entry.graph_training, entry.probability) == (True, 0.3)
    assert only(part).graph_training is False


def test_batch_norm_without_statistics_takes_them_from_the_input(exported: Exported) -> None:
    part, _ = exported("batch without statistics", dynamo=True)
    layer = only(part)
    assert (layer.kind, layer.graph_training, layer.statistics_from_input) == (NormKind.BATCH, False, True)
    assert (layer.tracks_statistics, layer.running_mean, layer.name) == (False, None, "0")


@EXPORTERS
def test_instance_norm_is_silent(dynamo: bool, exported: Exported) -> None:
    part, net = exported("instance", dynamo=dynamo)
    layer = only(part)
    assert (layer.kind, layer.graph_training, layer.statistics_from_input) == (NormKind.INSTANCE, None, None)
    check_values(layer, norm_of(net))


def test_instance_norm_with_statistics_is_silent_and_keeps_them(exported: Exported) -> None:
    part, net = exported("instance with statistics", dynamo=True)
    layer = only(part)
    assert (layer.kind, layer.graph_training, layer.statistics_from_input) == (NormKind.INSTANCE, False, None)
    assert layer.tracks_statistics is True
    check_values(layer, norm_of(net))


@EXPORTERS
@pytest.mark.parametrize(("kind", "expected"), [("group", NormKind.GROUP), ("layer", NormKind.LAYER)])
def test_group_and_layer_norm(kind: str, expected: NormKind, dynamo: bool, exported: Exported) -> None:
    part, net = exported(kind, dynamo=dynamo)
    layer = only(part)
    assert (layer.kind, layer.name, layer.eps, layer.tracks_statistics) == (expected, "0", 1e-5, False)
    check_values(layer, norm_of(net))


@pytest.mark.parametrize("opset", [9, 11, 16])
@pytest.mark.parametrize(("kind", "expected"), [("group", NormKind.GROUP), ("layer", NormKind.LAYER)])
def test_group_and_layer_norm_of_early_opsets(kind: str, expected: NormKind, opset: int, exported: Exported) -> None:
    part, net = exported(kind, dynamo=False, opset=opset)
    layer = only(part)
    assert (layer.kind, layer.name, layer.eps) == (expected, "0", 1e-5)
    assert layer.spelled_out is (kind == "layer")
    check_values(layer, norm_of(net))


def test_rms_norm_is_recognized_in_its_arithmetic(exported: Exported) -> None:
    part, net = exported("rms", dynamo=True)
    layer = only(part)
    assert (layer.kind, layer.spelled_out, layer.eps, layer.name) == (NormKind.RMS, True, 1e-6, "0")
    check_values(layer, norm_of(net))


@EXPORTERS
def test_weight_standardization_is_no_norm_layer(dynamo: bool, exported: Exported) -> None:
    part, _ = exported("weights", dynamo=dynamo)
    assert part.layers == ()


@EXPORTERS
def test_a_batch_norm_written_by_hand_is_recognized(dynamo: bool, exported: Exported) -> None:
    part, _ = exported("by hand", dynamo=dynamo)
    layer = only(part)
    assert (layer.kind, layer.spelled_out, layer.statistics_from_input) == (NormKind.BATCH, True, True)
    assert layer.eps == 1e-3


def package_models() -> list[Path]:
    return sorted([*PACKAGE.glob("light/light_*.onnx"), *PACKAGE.glob("pytorch-*/*/model.onnx")])


def reference_parameters(proto: onnx.ModelProto, written: onnx.NodeProto) -> list[Any]:
    """The values of inputs 1 to 4, from initializers, Constant or ConstantOfShape nodes, by onnx's own means."""
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    for each in proto.graph.node:
        if each.op_type == "ConstantOfShape" and each.output[0] in written.input[1:5]:
            filling = numpy_helper.to_array(each.attribute[0].t) if each.attribute else np.float32([0])
            stored[each.output[0]] = np.full(stored[each.input[0]], filling[0])
        elif each.op_type == "Constant":
            stored[each.output[0]] = numpy_helper.to_array(each.attribute[0].t)
    return [stored[name] for name in written.input[1:5]]


@pytest.mark.parametrize("path", package_models(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_models_of_the_onnx_package_read_as_onnx_loads_them(path: Path) -> None:
    proto = onnx.load(path)
    description = describe_file(path)
    (part,) = description.parts
    assert not description.gaps
    assert part.operators == len(proto.graph.node)
    batch = [each for each in proto.graph.node if each.op_type == "BatchNormalization"]
    layers = [layer for layer in part.layers if layer.class_name == "BatchNormalization"]
    assert len(layers) == len(batch)
    assert len({layer.name for layer in part.layers}) == len(part.layers)
    for layer, written in zip(layers, batch, strict=True):
        assert (layer.graph_training, layer.statistics_from_input, layer.kind) == (False, False, NormKind.BATCH)
        ours = (layer.weight, layer.bias, layer.running_mean, layer.running_var)
        for tensor, expected in zip(ours, reference_parameters(proto, written), strict=True):
            assert tensor is not None
            np.testing.assert_array_equal(tensor.values, expected.astype(np.float64))


def test_the_light_models_have_norms() -> None:
    """So that the test above is not about models without any."""
    counts = {path.stem: len(describe_file(path).parts[0].layers) for path in PACKAGE.glob("light/*.onnx")}
    assert counts["light_resnet50"] == 53
    assert counts["light_densenet121"] == 121


def node_cases() -> list[Any]:
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(onnx.backend.test.case.node.collect_testcases("BatchNormalization"))


@pytest.mark.parametrize("case", node_cases(), ids=lambda case: case.name)
def test_the_node_tests_of_batch_normalization(case: Any, tmp_path: Path) -> None:
    """Their statistics are inputs of the model apart from x; the form is what their name says."""
    (layer,) = describe(case.model, tmp_path).parts[0].layers
    training = "training_mode" in case.name
    assert layer.graph_training is training
    assert layer.statistics_from_input is None
    assert layer.eps == (0.01 if "epsilon" in case.name else 1e-5)


def test_quantized_models_are_read_through_their_scales(tmp_path: Path) -> None:
    """QDQ: weights and activations pass DequantizeLinear; the norm's own mean is stored as int8."""
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node("DequantizeLinear", ["mean int8", "s", "z"], ["m"]),
        node("BatchNormalization", ["d", "bn.weight", "bn.bias", "m", "bn.running_var"]),
    ]
    constants = {"s": np.float32(0.5), "z": np.int8(1), "mean int8": np.int8([3, -1, 1, 127])}
    (layer,) = describe(model(nodes, {**PARAMETERS, **constants}), tmp_path).parts[0].layers
    assert layer.mean is not None
    assert layer.mean.tolist() == [1.0, -1.0, 0.0, 63.0]
    assert (layer.statistics_from_input, layer.name) == (False, "bn")
