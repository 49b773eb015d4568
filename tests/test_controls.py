"""Healthy models that look odd, as real files in every container that can hold them: no warning, no error.

What is told of them is one of the notes that explain them, and no verdict fails.
"""

from __future__ import annotations

import contextlib
import copy
import io
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test
import onnx.backend.test.case.node
import pytest
import torch
from carriers import CARRIERS, COUNTING, UNTOUCHED, WITHOUT_CODE, write
from onnx.reference import ReferenceEvaluator
from onnx_builders import MEAN, PARAMETERS, model, node
from small_nets import (
    INSTANCE_NORMS,
    Block,
    DetectronFrozenBatchNorm2d,
    FrozenBatchNorm2d,
    MixtureOfExperts,
    Norm,
    PreNorm,
    ResNet,
    SharedHead,
    WeightStandardized,
    resnet,
    trained,
)
from torch import nn
from torch.nn.utils import prune

import bnaudit
from bnaudit.results import Audit, Confidence, Outcome, Question, Severity
from bnaudit.run_options import RunOptions
from bnaudit.settings import Settings

State = dict[str, torch.Tensor]
FILE_ALONE = Settings(run=RunOptions(static=True))


def looked_at(path: Path) -> Audit:
    report = bnaudit.audit(path, FILE_ALONE)
    assert report.unaudited == ()
    (audit,) = report.audits
    assert not audit.failed and audit.looked
    return audit


def explained(path: Path, *notes: str, open_buffers: bool = False) -> Audit:
    """The audit of a file of which nothing is said but these notes, and which classes a pickle needs."""
    audit = looked_at(path)
    loud = [finding for finding in audit.findings if finding.severity > Severity.NOTE]
    assert loud == []
    assert {finding.rule for finding in audit.findings} - {"BN901"} == set(notes)
    outcomes = {verdict.question: verdict.outcome for verdict in audit.verdicts}
    kept = any(layer.running_mean is not None for _, layer in audit.description.layers)
    folded = not kept and any(part.folded for part in audit.description.parts)
    complete = Outcome.NOT_CHECKED if folded else Outcome.PASSED
    assert outcomes.pop(Question.BUFFERS) is (Outcome.INCONCLUSIVE if open_buffers else complete)
    assert set(outcomes.values()) <= {Outcome.PASSED, Outcome.NOT_CHECKED}
    return audit


def kinds(audit: Audit) -> list[str]:
    return sorted({layer.kind.value for _, layer in audit.description.layers})


NETS: dict[str, Callable[[], nn.Module]] = {
    "plain": PreNorm,
    "standardized": WeightStandardized,
    "experts": MixtureOfExperts,
    "shared": SharedHead,
    **{f"instance, {which}": partial(PreNorm, norm) for which, norm in INSTANCE_NORMS.items()},
}


@cache
def _made(name: str) -> nn.Module:
    return trained(NETS[name]())


def made(name: str) -> Any:
    """A trained net of its own; training is paid for once."""
    return copy.deepcopy(_made(name))


TOLD = [name for name in CARRIERS if name not in (*WITHOUT_CODE, "ONNX by dynamo", "ONNX, fixed batch")]
# The older exporter wants the batch size of an instance norm that tracks its statistics.
FREE = [name for name in TOLD if name not in ("ONNX", "ONNX, not folded")]
CASES = [(which, name) for which in ("plain", "affine") for name in TOLD]
CASES += [(which, name) for which in ("tracking", "affine and tracking") for name in (*FREE, "ONNX, fixed batch")]


@pytest.mark.parametrize(("which", "carrier"), CASES)
def test_instance_norm_where_the_container_says_what_it_is(which: str, carrier: str, tmp_path: Path) -> None:
    audit = explained(write(carrier, made(f"instance, {which}"), tmp_path))
    assert kinds(audit) == ["instance"]


@pytest.mark.parametrize("carrier", WITHOUT_CODE)
@pytest.mark.parametrize("which", INSTANCE_NORMS)
def test_instance_norm_in_a_state_dict(which: str, carrier: str, tmp_path: Path) -> None:
    path = write(carrier, made(f"instance, {which}"), tmp_path)
    if which == "affine":
        (note,) = explained(path, "BN101", open_buffers=True).findings
        assert "cannot tell" in note.message
    else:
        explained(path)


@pytest.mark.parametrize("carrier", [name for name in CARRIERS if name != "ONNX by dynamo"])
@pytest.mark.parametrize("name", ["standardized", "experts"])
def test_standardized_weights_and_experts_with_tables(name: str, carrier: str, tmp_path: Path) -> None:
    explained(write(carrier, made(name), tmp_path))


@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_plain_model(carrier: str, tmp_path: Path) -> None:
    audit = explained(write(carrier, made("plain"), tmp_path))
    assert kinds(audit) == ["batch"]


@pytest.mark.parametrize("carrier", ["frozen script", "ONNX", "ONNX by dynamo"])
def test_a_graph_whose_norms_were_folded(carrier: str, tmp_path: Path) -> None:
    audit = explained(write(carrier, resnet(), tmp_path))
    (part,) = audit.description.parts
    assert not part.layers and part.folded


@pytest.mark.parametrize("carrier", [*COUNTING, "ONNX, not folded"])
def test_a_head_that_is_shared_by_the_levels_of_a_pyramid(carrier: str, tmp_path: Path) -> None:
    net = made("shared")
    assert net.head_bn.num_batches_tracked == 3 * net.stem_bn.num_batches_tracked
    explained(write(carrier, net, tmp_path), *(["BN112"] if carrier in COUNTING else []))


WITH_FROZEN = (*WITHOUT_CODE, "pickled module", "scripted", "traced", "exported", "exported, decomposed")
FROZEN = [(FrozenBatchNorm2d, name) for name in WITH_FROZEN]
FROZEN += [(DetectronFrozenBatchNorm2d, name) for name in (*WITHOUT_CODE, "pickled module")]


@pytest.mark.parametrize(("norm", "carrier"), FROZEN)
def test_frozen_norms_of_torchvision_and_detectron2(norm: Norm, carrier: str, tmp_path: Path) -> None:
    path = write(carrier, trained(PreNorm(norm), steps=3), tmp_path)
    # Without class versions they look like batch norms from before PyTorch 0.4.1.
    explained(path, *(["BN102"] if carrier == "safetensors" else []))


@pytest.mark.parametrize("carrier", [name for name in UNTOUCHED if name.startswith("ONNX")])
def test_frozen_norms_that_a_graph_writes_as_arithmetic_are_unread_and_a_run_looks_at_them(
    carrier: str, tmp_path: Path
) -> None:
    path = write(carrier, trained(PreNorm(FrozenBatchNorm2d), steps=3), tmp_path)
    for settings, code in ((FILE_ALONE, 3), (Settings(), 0)):
        (audit,) = bnaudit.audit(path, settings).audits
        assert {finding.rule for finding in audit.findings} == {"BN118"}
        outcomes = {verdict.question: verdict.outcome for verdict in audit.verdicts}
        assert outcomes[Question.BUFFERS] is Outcome.INCONCLUSIVE
        assert audit.exit_code == code


@pytest.mark.parametrize("carrier", [*COUNTING, "ONNX, not folded"])
def test_weights_ported_from_keras(carrier: str, tmp_path: Path) -> None:
    net = made("plain")
    for norm in (net.bn0, net.bn1):
        norm.eps, norm.momentum = 1e-3, 0.0
        norm.num_batches_tracked.zero_()
    explained(write(carrier, net, tmp_path), *(["BN208"] if carrier == "pickled module" else []))


@pytest.mark.parametrize("carrier", [*COUNTING, "ONNX, not folded"])
def test_a_fresh_model(carrier: str, tmp_path: Path) -> None:
    explained(write(carrier, PreNorm(), tmp_path), "BN103")


@pytest.mark.parametrize("trained_for", [0, 60])
def test_residual_gammas_that_start_at_zero(trained_for: int, tmp_path: Path) -> None:
    net = ResNet()
    for block in (module for module in net.modules() if isinstance(module, Block)):
        nn.init.zeros_(block.bn2.weight)
    explained(write("state dict", trained(net, trained_for), tmp_path), *([] if trained_for else ["BN103"]))


def with_dead_channels(net: Any) -> None:
    for norm in (module for module in net.modules() if isinstance(module, nn.BatchNorm2d)):
        norm.weight.data[:3] = 0
        norm.bias.data[:3] = 0
        norm.running_mean[1] = norm.running_var[1] = 0
        norm.running_var[2] = 1e-12


def with_pruned_weights(net: Any) -> None:
    for module in net.modules():
        if isinstance(module, (nn.Conv2d, nn.BatchNorm2d)):
            prune.l1_unstructured(module, "weight", 0.3)


def with_weight_norm(net: Any) -> None:
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.utils.parametrizations.weight_norm(module)


def with_spectral_norm(net: Any) -> None:
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.utils.spectral_norm(module)


@pytest.mark.parametrize("change", [with_dead_channels, with_pruned_weights, with_weight_norm, with_spectral_norm])
def test_dead_and_pruned_channels_and_other_parametrizations(change: Callable[[Any], None], tmp_path: Path) -> None:
    net = resnet()
    change(net)
    explained(write("state dict", net, tmp_path))
    if change in (with_dead_channels, with_pruned_weights):
        explained(write("pickled module", net, tmp_path))


def state_of(net: nn.Module, without: str = "", metadata: bool = True) -> State:
    state = net.state_dict()
    for name in [name for name in state if without and name.endswith(without)]:
        del state[name]
    return state if metadata else dict(state)


def saved(value: object, path: Path) -> Path:
    torch.save(value, path)
    return path


def test_a_counter_missing_and_nothing_else(tmp_path: Path) -> None:
    path = saved(state_of(resnet(), "num_batches_tracked", metadata=False), tmp_path / "net.pt")
    explained(path, "BN102")


@pytest.mark.parametrize("metadata", [True, False])
def test_affine_only_norms(metadata: bool, tmp_path: Path) -> None:
    state = resnet().state_dict()
    for name in [name for name in state if "running" in name or "batches" in name]:
        del state[name]
    explained(saved(state if metadata else dict(state), tmp_path / "net.pt"), "BN101", open_buffers=True)


@pytest.mark.parametrize("epsilon", [1e-5, 1e-3])
def test_absorbed_statistics(epsilon: float, tmp_path: Path) -> None:
    state = state_of(resnet(), "num_batches_tracked", metadata=False)
    for name, tensor in state.items():
        if name.endswith("running_mean"):
            tensor.zero_()
        elif name.endswith("running_var"):
            tensor.fill_(1 - epsilon)
    explained(saved(state, tmp_path / "net.pt"), "BN102", "BN103")


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "model.", "module._orig_mod.", "module.model."])
@pytest.mark.parametrize("legacy", [False, True])
def test_prefixes_of_wrappers(prefix: str, legacy: bool, tmp_path: Path) -> None:
    state = {prefix + name: tensor for name, tensor in resnet().state_dict().items()}
    torch.save(state, tmp_path / "net.pth", _use_new_zipfile_serialization=not legacy)
    audit = explained(tmp_path / "net.pth")
    assert all(layer.name.startswith(prefix) for _, layer in audit.description.layers)


def test_a_fresh_head_or_an_unused_branch_is_explained(tmp_path: Path) -> None:
    """The one control that the catalogue explains by a warning, of medium confidence."""
    net = resnet()
    net.aux = nn.Sequential(nn.Conv2d(16, 8, 1), nn.BatchNorm2d(8))
    audit = looked_at(saved(net.state_dict(), tmp_path / "net.pt"))
    (finding,) = audit.findings
    assert (finding.rule, finding.layer) == ("BN103", "aux.1")
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert audit.verdicts[0].outcome is Outcome.INCONCLUSIVE


def test_initial_weights_as_dcgan_draws_them(tmp_path: Path) -> None:
    def drawn(module: nn.Module) -> None:
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.weight, 1.0, 0.02)

    torch.manual_seed(0)
    explained(saved(ResNet().apply(drawn).state_dict(), tmp_path / "net.pt"), "BN103")


def averaged(net: Any, distance: float = 0.01) -> Any:
    """Weights a little away from the net's, with its statistics: what AveragedModel does by default."""
    torch.manual_seed(1)
    average = copy.deepcopy(net)
    for parameter in average.parameters():
        parameter.data += distance * torch.randn_like(parameter) * parameter.abs().mean()
    return average


def test_an_average_with_copied_buffers(tmp_path: Path) -> None:
    net = resnet()
    path = saved({"model": net.state_dict(), "model_ema": averaged(net).state_dict()}, tmp_path / "net.pt")
    explained(path, "BN117")


def test_an_average_with_buffers_of_its_own(tmp_path: Path) -> None:
    net = resnet()
    average = torch.optim.swa_utils.AveragedModel(net, use_buffers=True, multi_avg_fn=ema(0.9))
    for seed in range(40):
        average.update_parameters(trained(net, 1, seed=seed))
    explained(saved({"state_dict": net.state_dict(), "state_dict_ema": average.state_dict()}, tmp_path / "net.pt"))


def ema(decay: float) -> Any:
    return torch.optim.swa_utils.get_ema_multi_avg_fn(decay)


def test_statistics_measured_anew(tmp_path: Path) -> None:
    net = resnet()
    torch.manual_seed(0)
    torch.optim.swa_utils.update_bn([torch.randn(8, 3, 8, 8) for _ in range(6)], net)
    explained(saved(net.state_dict(), tmp_path / "net.pt"))


def test_a_short_fine_tune_with_counters_from_zero(tmp_path: Path) -> None:
    net = resnet()
    for norm in (module for module in net.modules() if isinstance(module, nn.BatchNorm2d)):
        norm.num_batches_tracked.zero_()
    explained(saved(trained(net, 5).state_dict(), tmp_path / "net.pt"))


class NormEval(ResNet):
    """Keeps its norms in eval mode whatever train() says, as mmdetection's backbones do."""

    def train(self, mode: bool = True) -> NormEval:
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()
        return self


@pytest.mark.parametrize("frozen", [False, True])
def test_a_backbone_that_keeps_its_norms_in_eval_mode(frozen: bool, tmp_path: Path) -> None:
    net = NormEval()
    net.load_state_dict(resnet().state_dict())
    for norm in (module for module in net.train().modules() if isinstance(module, nn.BatchNorm2d)):
        norm.requires_grad_(not frozen)
    assert net.training
    explained(saved(net, tmp_path / "net.pt"))


def engine_is_there() -> bool:
    return bool({"fbgemm", "x86", "qnnpack"} & set(torch.backends.quantized.supported_engines))


@pytest.mark.skipif(not engine_is_there(), reason="this build of torch has no engine for quantized models")
@pytest.mark.parametrize("carrier", ["state dict", "pickled module", "scripted", "traced"])
@pytest.mark.filterwarnings("ignore")
def test_a_statically_quantized_model(carrier: str, tmp_path: Path) -> None:
    quantization = torch.ao.quantization
    net = nn.Sequential(
        quantization.QuantStub(), nn.Conv2d(3, 8, 3), nn.ReLU(), nn.BatchNorm2d(8), nn.Dropout(0.1), nn.Conv2d(8, 4, 3)
    )
    net = trained(nn.Sequential(*net, quantization.DeQuantStub())).eval()
    net.qconfig = quantization.default_qconfig
    prepared = quantization.prepare(net)
    prepared(torch.randn(4, 3, 8, 8))
    quantized = quantization.convert(prepared)
    notes = {"pickled module": ["BN118"], "scripted": [], "traced": [], "state dict": []}[carrier]
    assert kinds(explained(write(carrier, quantized, tmp_path), *notes)) == ["batch"]


@pytest.mark.filterwarnings("ignore")
def test_a_model_prepared_for_quantization_aware_training(tmp_path: Path) -> None:
    quantization = torch.ao.quantization
    net = nn.Sequential(OrderedDict(conv=nn.Conv2d(3, 8, 3), bn=nn.BatchNorm2d(8), relu=nn.ReLU()))
    net.qconfig = quantization.get_default_qat_qconfig("fbgemm")
    fused = quantization.fuse_modules_qat(net.train(), [["conv", "bn", "relu"]])
    audit = explained(saved(trained(quantization.prepare_qat(fused)).state_dict(), tmp_path / "net.pt"))
    assert [layer.name for _, layer in audit.description.layers] == ["conv.bn"]


@pytest.mark.parametrize(
    "extra",
    [{}, {"logit_scale": torch.tensor(4.6)}, {"rope.inv_freq": torch.rand(8)}],
    ids=lambda extra: next(iter(extra), "no other tensor"),
)
def test_a_model_in_half_precision(extra: State, tmp_path: Path) -> None:
    explained(saved(resnet().half().state_dict() | extra, tmp_path / "net.pt"), "BN110")


def tensor(array: Any) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.asarray(array))


HALF, FOUR = np.array([0.5], np.float32), np.array([4], np.int64)
CHAINS: dict[str, tuple[list[onnx.NodeProto], dict[str, Any]]] = {
    "initializer": ([], {"mean": MEAN}),
    "Constant": ([node("Constant", [], ["mean"], value=tensor(MEAN))], {}),
    "Identity": ([node("Identity", ["m"], ["mean"])], {"m": MEAN}),
    "ConstantOfShape": ([node("ConstantOfShape", ["n"], ["mean"], value=tensor(HALF))], {"n": FOUR}),
    "Expand": ([node("Expand", ["m", "n"], ["mean"])], {"m": HALF, "n": FOUR}),
    "Tile": ([node("Tile", ["m", "n"], ["mean"])], {"m": HALF, "n": FOUR}),
    "DequantizeLinear": (
        [node("DequantizeLinear", ["q", "s", "z"], ["mean"])],
        {"q": np.array([3, -1, 5, 0], np.int8), "s": np.float32(0.5), "z": np.int8(0)},
    ),
}


@pytest.mark.parametrize("also_inputs", [False, True])
@pytest.mark.parametrize("chain", CHAINS)
def test_statistics_given_by_other_nodes(chain: str, also_inputs: bool, tmp_path: Path) -> None:
    nodes, constants = CHAINS[chain]
    norm = node("BatchNormalization", ["x", "bn.weight", "bn.bias", "mean", "bn.running_var"])
    proto = model([*nodes, norm], PARAMETERS | constants, opset=19)
    if also_inputs:
        for stored in proto.graph.initializer:
            proto.graph.input.append(onnx.helper.make_tensor_value_info(stored.name, stored.data_type, stored.dims))
    onnx.save(proto, tmp_path / "net.onnx")
    audit = explained(tmp_path / "net.onnx")
    ((_, layer),) = audit.description.layers
    (expected,) = ReferenceEvaluator(model(nodes, constants, inputs={}, outputs=["mean"], opset=19)).run(None, {})
    np.testing.assert_array_equal(layer.mean, expected)


PACKAGE = Path(onnx.backend.test.__file__).parent / "data"


def package_models() -> list[Path]:
    return sorted([*PACKAGE.glob("light/light_*.onnx"), *PACKAGE.glob("pytorch-*/*orm*/model.onnx")])


@pytest.mark.parametrize("path", package_models(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_models_of_the_onnx_package(path: Path) -> None:
    explained(path, *(["BN103"] if "BatchNorm" in path.parent.name else []))


def node_cases() -> Iterator[Any]:
    operators = ("BatchNormalization", "InstanceNormalization", "LayerNormalization", "GroupNormalization")
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for operator in (*operators, "RMSNormalization", "MeanVarianceNormalization", "LpNormalization"):
            yield from onnx.backend.test.case.node.collect_testcases(operator)


@pytest.mark.parametrize("case", list(node_cases()), ids=lambda case: case.name)
def test_node_models_of_the_onnx_package(case: Any, tmp_path: Path) -> None:
    onnx.save(case.model, tmp_path / "node.onnx")
    if "training_mode" in case.name:
        assert [finding.rule for finding in looked_at(tmp_path / "node.onnx").findings] == ["BN202"]
    else:
        explained(tmp_path / "node.onnx")
