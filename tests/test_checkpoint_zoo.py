"""Checkpoints laid out as trainers write them: every model in them is found, a healthy one is left alone, and one
broken tensor is found where it is. The networks are real, and torch says what is in them.
"""

from __future__ import annotations

import argparse
import copy
import json
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from small_nets import average, optimizer_of, resnet, trained
from torch import nn

import bnaudit
from bnaudit.description import Carrier, NormKind, Part
from bnaudit.results import Audit, Finding, Outcome, Question, Severity

State = dict[str, Any]
BROKEN = "layer1.0.bn2"


class Held(NamedTuple):
    """A model in a checkpoint."""

    net: Any
    """The network whose tensors are saved: changing it changes what will be saved."""
    state: State | None = None
    """Its state dict in the checkpoint; None when the module itself is pickled."""
    prefix: str = ""

    def stored(self, name: str) -> str:
        """What the checkpoint calls a layer or tensor of the network."""
        return self.prefix + (name.replace(".", "_") if self.prefix == "ema_" else name)


class Layout(NamedTuple):
    """A checkpoint: what is saved, and the models in it by the names of their parts."""

    value: Any
    models: dict[str, list[Held]]
    notes: tuple[str, ...] = ()
    has_optimizer: bool = False
    steps: int | None = None


def state_of(net: nn.Module, prefix: str = "") -> Held:
    """The net's state dict, sharing its tensors; renamed when there is a prefix, which loses the class versions."""
    held = Held(net, None, prefix)
    state = net.state_dict()
    return held._replace(state={held.stored(name): t for name, t in state.items()} if prefix else state)


def lightning() -> Layout:
    net = resnet()
    held, averaged = state_of(net, "model."), state_of(average())
    callbacks = {
        "ModelCheckpoint{'monitor': 'loss'}": {
            "best_model_score": torch.tensor(0.9),
            "kth_best_model": torch.tensor(1.0),
            "best_k_models": {"last.ckpt": torch.tensor(0.1)},
        },
        "EMACallback": {"ema_state_dict": averaged.state},
    }
    progress = {"total": {"ready": 60, "completed": 60}, "is_last_batch": True}
    value = {
        "epoch": 3,
        "global_step": 60,
        "pytorch-lightning_version": "2.2.1",
        "state_dict": held.state,
        "loops": {"fit_loop": {"epoch_loop.batch_progress": progress}},
        "callbacks": callbacks,
        "optimizer_states": [optimizer_of(net).state_dict()],
        "lr_schedulers": [{"last_epoch": 3, "_last_lr": [0.1]}],
        "hparams_name": "kwargs",
        "hyper_parameters": {"lr": 0.1, "optimizer": {"name": "adam"}, "norm": nn.BatchNorm2d},
    }
    models = {"state_dict": [held], "callbacks.EMACallback.ema_state_dict": [averaged]}
    return Layout(value, models, has_optimizer=True, steps=60)


def timm() -> Layout:
    net = resnet()
    held, averaged = state_of(net), state_of(average())
    value = {
        "epoch": 5,
        "arch": "resnet10t",
        "state_dict": held.state,
        "optimizer": optimizer_of(net).state_dict(),
        "version": 2,
        "args": argparse.Namespace(lr=0.1, model="resnet10t", bn_momentum=None),
        "amp_scaler": {"scale": 65536.0, "_growth_tracker": torch.tensor(3)},
        "state_dict_ema": averaged.state,
        "metric": 76.1,
    }
    return Layout(value, {"state_dict": [held], "state_dict_ema": [averaged]}, has_optimizer=True, steps=60)


def detectron2() -> Layout:
    net = resnet()
    held = state_of(net)
    scheduler = {"last_epoch": 59, "base_lrs": [0.1]}
    value = {"model": held.state, "optimizer": optimizer_of(net).state_dict(), "scheduler": scheduler, "iteration": 59}
    return Layout(value, {"model": [held]}, has_optimizer=True, steps=60)


def mmengine() -> Layout:
    net = resnet()
    held, averaged = state_of(net), state_of(average(), "module.")
    meta = {"epoch": 12, "iter": 60, "dataset_meta": {"CLASSES": ("cat",)}, "config": "norm_cfg = dict(type='BN')"}
    value = {
        "meta": meta,
        "state_dict": held.state,
        "ema_state_dict": {"steps": torch.tensor(60), **(averaged.state or {})},
        "optimizer": optimizer_of(net).state_dict(),
        "param_schedulers": [{"last_step": 60}],
        "message_hub": {"log_scalars": {"loss": [torch.tensor(0.2)]}},
    }
    averaged = averaged._replace(state=value["ema_state_dict"])
    return Layout(value, {"state_dict": [held], "ema_state_dict": [averaged]}, has_optimizer=True, steps=60)


def mmdetection_with_both_in_one_dict() -> Layout:
    net = resnet()
    held, averaged = state_of(net), state_of(average(), "ema_")
    both = OrderedDict({**(held.state or {}), **(averaged.state or {})})
    value = {"meta": {"epoch": 12, "CLASSES": ("cat", "dog")}, "state_dict": both}
    return Layout(value, {"state_dict": [held._replace(state=both), averaged._replace(state=both)]}, notes=("BN112",))


def fairseq() -> Layout:
    net = resnet()
    held = state_of(net)
    value = {
        "args": argparse.Namespace(arch="wav2vec"),
        "cfg": {"model": {"_name": "wav2vec"}, "optimizer": {"_name": "adam", "lr": [0.1]}},
        "model": held.state,
        "criterion": None,
        "optimizer_history": [{"optimizer_name": "FairseqAdam", "lr_scheduler_state": {"best": None}}],
        "task_state": {},
        "extra_state": {"train_iterator": {"epoch": 2}, "previous_training_time": 3.0},
        "last_optimizer_state": optimizer_of(net).state_dict(),
    }
    return Layout(value, {"model": [held]}, has_optimizer=True, steps=60)


def deepspeed() -> Layout:
    net = resnet()
    held = state_of(net)
    value = {
        "module": held.state,
        "buffer_names": [name for name, _ in net.named_buffers()],
        "optimizer": None,
        "param_shapes": [{name: parameter.shape for name, parameter in net.named_parameters()}],
        "frozen_param_shapes": None,
        "lr_scheduler": None,
        "sparse_tensor_module_names": set(),
        "skipped_steps": 0,
        "global_steps": 60,
        "ds_config": {"optimizer": {"type": "Adam"}, "train_batch_size": 8},
        "ds_version": "0.14.0",
    }
    return Layout(value, {"module": [held]}, steps=60)


def gan() -> Layout:
    generator, critic = resnet(1), resnet(2)
    held = {"G": [state_of(generator)], "D": [state_of(critic)], "G_ema": [state_of(average(1))]}
    value: State = {name: models[0].state for name, models in held.items()}
    value |= {"g_optim": optimizer_of(generator).state_dict(), "d_optim": optimizer_of(critic).state_dict()}
    return Layout(value | {"mean_path_length": torch.tensor(0.0)}, held, has_optimizer=True, steps=60)


def moco() -> Layout:
    query = resnet()
    held = [state_of(query, "module.encoder_q."), state_of(average(), "module.encoder_k.")]
    both: State = {name: t for model in held for name, t in (model.state or {}).items()}
    both |= {"module.queue": torch.randn(8, 16), "module.queue_ptr": torch.zeros(1, dtype=torch.long)}
    models = [model._replace(state=both) for model in held]
    return Layout({"epoch": 200, "arch": "resnet50", "state_dict": both}, {"state_dict": models}, notes=("BN112",))


def averaged_by_torch() -> Layout:
    net = resnet()
    swa = torch.optim.swa_utils.AveragedModel(net)
    swa.update_parameters(net)
    held, averaged = state_of(net), Held(swa.module, swa.state_dict(), "module.")
    return Layout({"model": held.state, "swa_model": averaged.state}, {"model": [held], "swa_model": [averaged]})


def clients() -> Layout:
    held = [state_of(resnet(seed)) for seed in range(3)]
    return Layout([model.state for model in held], {str(i): [model] for i, model in enumerate(held)})


def a_tuple() -> Layout:
    net = resnet()
    held = state_of(net)
    return Layout((held.state, optimizer_of(net).state_dict()), {"0": [held]}, has_optimizer=True, steps=60)


def nested_lists() -> Layout:
    first, second = state_of(resnet()), state_of(resnet(1))
    value = [[{"fold": [first.state]}], {"fold": (second.state,)}]
    return Layout(value, {"0.0.fold.0": [first], "1.fold.0": [second]})


def with_none() -> Layout:
    held = state_of(resnet())
    value = OrderedDict({**(held.state or {}), "fc._extra_state": None, "note": "best", "fc.bias": None})
    return Layout(value, {"": [held._replace(state=value)]})


def yolo() -> Layout:
    net = resnet()
    models = {"model": [Held(net.half().eval())], "ema": [Held(average().half().eval())]}
    value = {"epoch": -1, "best_fitness": np.float64(0.4), "updates": 9000, "optimizer": None, "wandb_id": None}
    value |= {name: held[0].net for name, held in models.items()}
    return Layout(value, models, notes=("BN110",))


def yolo_stripped() -> Layout:
    net = average().half().eval().requires_grad_(False)
    value = {"epoch": -1, "model": None, "ema": net, "train_args": {"optimizer": "auto"}, "version": "8.2.0"}
    return Layout(value, {"ema": [Held(net)]}, notes=("BN110",))


class ModelEMA:
    """A trainer's average: no module, but it holds one."""

    def __init__(self, net: nn.Module) -> None:
        self.ema, self.updates = net.eval(), 9000


class Trainer:
    """A trainer that was pickled as it is."""

    def __init__(self, net: nn.Module, averaged: nn.Module) -> None:
        self.model, self.ema, self.args = net.eval(), ModelEMA(averaged), argparse.Namespace(lr=0.1)
        self.optimizer = optimizer_of(net)


def pickled_trainer() -> Layout:
    net, averaged = resnet(), average()
    return Layout(Trainer(net, averaged), {"model": [Held(net)], "ema.ema": [Held(averaged)]}, (), True, 60)


def modules_by_name() -> Layout:
    encoder, decoder = resnet().eval(), resnet(1).eval()
    return Layout({"encoder": encoder, "decoder": decoder}, {"encoder": [Held(encoder)], "decoder": [Held(decoder)]})


def ensemble() -> Layout:
    nets = [resnet(seed).eval() for seed in range(3)]
    return Layout(nets, {str(position): [Held(net)] for position, net in enumerate(nets)})


def prefixed(prefix: str) -> Callable[[], Layout]:
    def make() -> Layout:
        held = state_of(resnet(), prefix)
        return Layout({"net": held.state, "acc": 93.1, "epoch": 5}, {"net": [held]})

    return make


def student_and_teacher() -> Layout:
    net = resnet()
    student, teacher = state_of(net, "module."), state_of(average())
    value = {
        "student": student.state,
        "teacher": teacher.state,
        "optimizer": optimizer_of(net).state_dict(),
        "args": argparse.Namespace(),
        "dino_loss": {"center": torch.randn(1, 16)},
    }
    return Layout(value, {"student": [student], "teacher": [teacher]}, has_optimizer=True, steps=60)


def restoration() -> Layout:
    net = resnet()
    held, averaged = state_of(net), state_of(average())
    return Layout({"params": held.state, "params_ema": averaged.state}, {"params": [held], "params_ema": [averaged]})


def catalyst() -> Layout:
    net = resnet()
    held = state_of(net)
    value = {
        "model_state_dict": held.state,
        "criterion_state_dict": OrderedDict(),
        "optimizer_state_dict": optimizer_of(net).state_dict(),
        "scheduler_state_dict": None,
        "rng": (torch.get_rng_state(), np.random.default_rng(0).bit_generator.state),
    }
    return Layout(value, {"model_state_dict": [held]}, has_optimizer=True, steps=60)


def adapters() -> Layout:
    net = resnet()
    held = state_of(net, "base_model.model.")
    state = {**(held.state or {}), "base_model.model.fc.lora_A.default.weight": torch.randn(4, 16)}
    return Layout(state, {"": [held._replace(state=state)]})


LAYOUTS: dict[str, Callable[[], Layout]] = {
    "Lightning": lightning,
    "timm": timm,
    "detectron2": detectron2,
    "mmengine": mmengine,
    "mmdetection, both in one dict": mmdetection_with_both_in_one_dict,
    "fairseq": fairseq,
    "DeepSpeed": deepspeed,
    "GAN": gan,
    "MoCo": moco,
    "AveragedModel": averaged_by_torch,
    "federated": clients,
    "tuple": a_tuple,
    "nested lists": nested_lists,
    "None in a state dict": with_none,
    "YOLO": yolo,
    "YOLO, stripped": yolo_stripped,
    "pickled trainer": pickled_trainer,
    "modules by name": modules_by_name,
    "ensemble": ensemble,
    "DataParallel": prefixed("module."),
    "compiled DataParallel": prefixed("module._orig_mod."),
    "FSDP with activation checkpointing": prefixed("_fsdp_wrapped_module._checkpoint_wrapped_module."),
    "student and teacher": student_and_teacher,
    "BasicSR": restoration,
    "Catalyst": catalyst,
    "LoRA": adapters,
}


def audit_of(path: Path) -> Audit:
    report = bnaudit.audit(path)
    assert report.unaudited == ()
    (audit,) = report.audits
    assert not audit.failed
    return audit


def audit_saved(value: Any, folder: Path) -> Audit:
    torch.save(value, folder / "checkpoint.pt")
    return audit_of(folder / "checkpoint.pt")


def loud(audit: Audit) -> list[Finding]:
    return [finding for finding in audit.findings if finding.severity > Severity.NOTE]


def norms(net: nn.Module) -> Iterator[tuple[str, Any]]:
    return ((name, module) for name, module in net.named_modules() if isinstance(module, nn.BatchNorm2d))


def assert_same(part: Part, models: list[Held]) -> None:
    """The part's layers are the networks' batch norms, in their order and with their values."""
    expected = [(held.stored(name), norm, held) for held in models for name, norm in norms(held.net)]
    assert [layer.name for layer in part.layers] == [name for name, _, _ in expected]
    for layer, (_, norm, held) in zip(part.layers, expected, strict=True):
        assert layer.kind is NormKind.BATCH
        assert layer.counter == norm.num_batches_tracked.item()
        for ours, theirs in zip(
            (layer.mean, layer.var, layer.gamma, layer.beta),
            (norm.running_mean, norm.running_var, norm.weight, norm.bias),
            strict=True,
        ):
            np.testing.assert_array_equal(ours, theirs.detach().double().numpy())
        assert part.carrier is (Carrier.MODULE if held.state is None else Carrier.STATE_DICT)


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_model_is_found_and_left_alone(name: str, tmp_path: Path) -> None:
    layout = LAYOUTS[name]()
    audit = audit_saved(layout.value, tmp_path)
    parts = {part.name: part for part in audit.description.parts if part.layers}
    assert list(parts) == list(layout.models)
    for part_name, models in layout.models.items():
        assert_same(parts[part_name], models)
    assert loud(audit) == []
    assert {finding.rule for finding in audit.findings} - {"BN901"} == set(layout.notes)
    assert audit.description.has_optimizer is layout.has_optimizer
    assert audit.description.steps == layout.steps
    assert audit.verdicts[0].outcome is Outcome.PASSED
    assert Outcome.FAILED not in {verdict.outcome for verdict in audit.verdicts}


@pytest.mark.parametrize("name", LAYOUTS)
def test_one_broken_value_is_found_where_it_is(name: str, tmp_path: Path) -> None:
    layout = LAYOUTS[name]()
    part_name, models = list(layout.models.items())[-1]
    dict(norms(models[-1].net))[BROKEN].running_var[3] = float("nan")
    (finding,) = loud(audit_saved(layout.value, tmp_path))
    assert (finding.rule, finding.severity) == ("BN106", Severity.ERROR)
    assert (finding.part, finding.layer, finding.channels) == (part_name, models[-1].stored(BROKEN), (3,))


@pytest.mark.parametrize("name", LAYOUTS)
def test_one_lost_buffer_is_found_where_it_was(name: str, tmp_path: Path) -> None:
    layout = LAYOUTS[name]()
    part_name, models = next(iter(layout.models.items()))
    if models[0].state is None:
        dict(norms(models[0].net))[BROKEN].running_mean = None
    else:
        del models[0].state[models[0].stored(f"{BROKEN}.running_mean")]
    audit = audit_saved(layout.value, tmp_path)
    (finding,) = loud(audit)
    assert (finding.rule, finding.severity) == ("BN101", Severity.ERROR)
    assert (finding.part, finding.layer) == (part_name, models[0].stored(BROKEN))
    assert audit.verdicts[0].outcome is Outcome.FAILED


AVERAGES: dict[str, Callable[[State, State], Any]] = {
    "two parts": lambda raw, ema: {"state_dict": raw, "state_dict_ema": ema},
    "a callback": lambda raw, ema: {"state_dict": raw, "callbacks": {"EMACallback": {"ema_state_dict": ema}}},
    "a list": lambda raw, ema: {"model": raw, "averages": [{"ema": ema}]},
    "model_ema.": lambda raw, ema: under("model.", raw) | under("model_ema.", ema),
    "online_model.": lambda raw, ema: under("online_model.", raw) | under("ema_model.", ema),
    "net_ema.": lambda raw, ema: {"state_dict": under("net.", raw) | under("net_ema.", ema)},
    "module.ema.module.": lambda raw, ema: under("module.net.", raw) | under("module.ema.module.", ema),
    "ema_ of mmdetection": lambda raw, ema: raw | {f"ema_{name.replace('.', '_')}": t for name, t in ema.items()},
}


def under(prefix: str, state: State) -> State:
    return {prefix + name: tensor for name, tensor in state.items()}


@pytest.mark.parametrize("name", AVERAGES)
@pytest.mark.parametrize("defect", ["initial", "lagging", "copied from afar"])
def test_a_stale_average_is_found_under_every_name(name: str, defect: str, tmp_path: Path) -> None:
    net = resnet()
    averaged = copy.deepcopy(net)
    torch.manual_seed(2)
    for parameter in averaged.parameters():
        parameter.data *= 1 + 0.3 * torch.randn_like(parameter)
    for _, norm in norms(averaged):
        if defect == "initial":
            norm.reset_running_stats()
        elif defect == "lagging":
            norm.running_mean.mul_(0.8)
            norm.running_var.mul_(0.8).add_(0.2)
    audit = audit_saved(AVERAGES[name](dict(net.state_dict()), dict(averaged.state_dict())), tmp_path)
    found = loud(audit)
    assert {finding.rule for finding in found} == {"BN117"}
    assert len(found) == (1 if defect == "copied from afar" else 10)
    assert {finding.severity for finding in found} == {Severity.ERROR if defect == "initial" else Severity.WARNING}


@pytest.mark.parametrize("where", ["shadow", "list", "same dict"])
def test_an_average_over_parameters_alone_is_told_as_one(where: str, tmp_path: Path) -> None:
    net = resnet()
    state, shadow = net.state_dict(), {name: parameter.data for name, parameter in net.named_parameters()}
    value = {
        "shadow": {"model": state, "ema": {"shadow": shadow, "decay": 0.999}},
        "list": [state, {"state": {}, "param_groups": []}, 3, shadow],
        "same dict": OrderedDict({**state, **{f"ema_{key.replace('.', '_')}": t for key, t in shadow.items()}}),
    }[where]
    audit = audit_saved(value, tmp_path)
    (note,) = audit.findings
    assert note.rule == "BN101" and note.message.startswith("parameters alone in ")
    assert audit.verdicts[0].outcome is (Outcome.PASSED if where == "same dict" else Outcome.INCONCLUSIVE)


def test_a_folder_of_the_transformers_trainer(tmp_path: Path) -> None:
    net = resnet()
    config = {"architectures": ["ResNetForImageClassification"], "transformers_version": "4.40.0"}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (tmp_path / "trainer_state.json").write_text(json.dumps({"global_step": 60}), encoding="utf-8")
    torch.save(net.state_dict(), tmp_path / "pytorch_model.bin")
    torch.save(optimizer_of(net).state_dict(), tmp_path / "optimizer.pt")
    torch.save({"last_epoch": 1}, tmp_path / "scheduler.pt")
    torch.save(argparse.Namespace(lr=0.1), tmp_path / "training_args.bin")
    audit = audit_of(tmp_path)
    assert audit.findings == ()
    assert (audit.description.has_optimizer, audit.description.steps) == (True, 60)
    assert_same(audit.description.parts[0], [Held(net, {})])


WRITERS: dict[str, Callable[[State, Path], object]] = {
    "model.safetensors": lambda state, path: save_file(state, path),
    "pytorch_model.bin": lambda state, path: save_file(state, path),
    "zip.safetensors": lambda state, path: torch.save(state, path),
    "legacy.pth": lambda state, path: torch.save(state, path, _use_new_zipfile_serialization=False),
    "arrays.npz": lambda state, path: np.savez(path, **{name: t.numpy() for name, t in state.items()}),
    "arrays.pkl": lambda state, path: path.write_bytes(
        pickle.dumps({"model": {name: t.numpy() for name, t in state.items()}, "__author__": "someone"})
    ),
}


@pytest.mark.parametrize("name", WRITERS)
def test_the_content_counts_whatever_the_ending_says(name: str, tmp_path: Path) -> None:
    net = resnet()
    WRITERS[name](dict(net.state_dict()), tmp_path / name)
    audit = audit_of(tmp_path / name)
    assert audit.findings == ()
    assert_same(audit.description.parts[0], [Held(net, {})])
    net.bn1.running_mean[0] = float("inf")
    WRITERS[name](dict(net.state_dict()), tmp_path / name)
    assert [(f.rule, f.layer) for f in loud(audit_of(tmp_path / name))] == [("BN106", "bn1")]


def named(*names: str, size: int = 8) -> State:
    return {name: torch.linspace(0.5, 1.5, size) for name in names}


LAYER_NORMS = ("embeddings.LayerNorm", "encoder.layer.0.attention.output.LayerNorm", "encoder.layer.0.output.LayerNorm")
PUBLISHED: dict[str, tuple[State, set[NormKind]]] = {
    "BERT": (named(*(f"{name}.{leaf}" for name in LAYER_NORMS for leaf in ("weight", "bias"))), {NormKind.LAYER}),
    "BERT of TensorFlow": (
        named(*(f"{name}.{leaf}" for name in LAYER_NORMS for leaf in ("gamma", "beta"))),
        {NormKind.LAYER},
    ),
    "Llama": (
        named(
            *(f"model.layers.0.{name}_layernorm.weight" for name in ("input", "post_attention")), "model.norm.weight"
        ),
        {NormKind.RMS},
    ),
    "GPT-2": (named(*(f"{n}.{leaf}" for n in ("h.0.ln_1", "ln_f") for leaf in ("weight", "bias"))), {NormKind.LAYER}),
    "GPT-NeoX": (
        named(
            *(f"gpt_neox.{n}.{leaf}" for n in ("layers.0.input_layernorm", "norm_ln") for leaf in ("weight", "bias"))
        ),
        {NormKind.LAYER},
    ),
    "T5": (named("encoder.block.0.layer.0.layer_norm.weight", "encoder.final_layer_norm.weight"), {NormKind.RMS}),
    "Gemma": (named("model.layers.0.self_attn.q_norm.weight", "model.layers.0.input_layernorm.weight"), {NormKind.RMS}),
    "CLIP": (
        {**named("visual.ln_pre.weight", "visual.ln_pre.bias"), "logit_scale": torch.tensor(4.6)},
        {NormKind.LAYER},
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_language_models_have_no_statistics_to_lose(name: str, tmp_path: Path) -> None:
    state, kinds = PUBLISHED[name]
    audit = audit_saved(state | {"lm_head.weight": torch.randn(10, 8)}, tmp_path)
    assert {layer.kind for _, layer in audit.description.layers} == kinds
    assert audit.findings == ()
    assert audit.verdicts[0].outcome is Outcome.PASSED


class ConvNeXtBlock(nn.Module):
    """Layer norm named norm, and a scale per channel named gamma, as timm and torchvision do."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_dw = nn.Conv2d(8, 8, 7, groups=8)
        self.norm = nn.LayerNorm(8)
        self.fc = nn.Linear(8, 8)
        self.gamma = nn.Parameter(torch.full((8,), 1e-6))


def test_norms_of_other_classes_in_a_state_dict_with_class_versions(tmp_path: Path) -> None:
    stem = nn.Sequential(nn.Conv2d(3, 8, 4), nn.GroupNorm(1, 8))
    net = nn.Sequential(OrderedDict(stem=stem, blocks=nn.Sequential(ConvNeXtBlock()), prelu=nn.PReLU(8)))
    audit = audit_saved(net.state_dict(), tmp_path)
    assert audit.findings == ()
    assert [layer.name for _, layer in audit.description.layers] == ["stem.1", "blocks.0.norm"]


class EfficientNetStage(nn.Module):
    """Norms under leading underscores, of one, two and three dimensions, with one channel, without weight and bias."""

    def __init__(self) -> None:
        super().__init__()
        self._bn0 = nn.BatchNorm2d(4, eps=1e-3)
        self._blocks = nn.ModuleList([nn.Sequential(nn.SyncBatchNorm(4), nn.LazyBatchNorm2d())])
        self.one = nn.BatchNorm3d(1)
        self.bare = nn.BatchNorm1d(4, affine=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self._blocks[0](self._bn0(x))
        x = self.one(x.unsqueeze(1)).squeeze(1)
        return self.bare(x.mean((2, 3)))


def test_batch_norms_of_every_dimension(tmp_path: Path) -> None:
    net = trained(EfficientNetStage(), shape=(16, 4, 5, 5)).eval()
    names = ["_bn0", "_blocks.0.0", "_blocks.0.1", "one", "bare"]
    audit = audit_saved(net.state_dict(), tmp_path)
    assert [layer.name for _, layer in audit.description.layers] == names
    assert audit.findings == ()
    audit = audit_saved(net, tmp_path)
    kinds = {layer.name: layer.kind for _, layer in audit.description.layers}
    assert kinds == dict.fromkeys(names, NormKind.BATCH) | {"_blocks.0.0": NormKind.SYNC_BATCH}
    assert loud(audit) == []


def test_tensors_left_on_the_meta_device_are_missing(tmp_path: Path) -> None:
    state = resnet().state_dict()
    for name in [name for name in state if name.startswith("layer2.1.bn")]:
        state[name] = state[name].to("meta")
    found = loud(audit_saved(state, tmp_path))
    assert [(finding.rule, finding.layer) for finding in found] == [("BN101", f"layer2.1.bn{i}") for i in (1, 2)]
    assert all("without values" in finding.message for finding in found)


class BatchRenorm2d(nn.Module):
    """Keeps a standard deviation in place of a variance."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.rand(8)), nn.Parameter(torch.randn(8))
        for name in ("running_mean", "running_std"):
            self.register_buffer(name, torch.rand(8))
        self.register_buffer("num_batches_tracked", torch.tensor(60))


class EvoNorm2dB0(nn.Module):
    """timm's: a variance and no mean."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias, self.v = (nn.Parameter(torch.rand(8)) for _ in range(3))
        self.register_buffer("running_var", torch.rand(8))


class RunningMeanStd(nn.Module):
    """The normalizer of observations in reinforcement learning."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("running_mean", "running_var"):
            self.register_buffer(name, torch.rand(8, dtype=torch.float64))
        self.register_buffer("count", torch.tensor(1e6, dtype=torch.float64))


class RandomErasing(nn.Module):
    """torchvision's augmentation, kept with the model: it has a probability and an inplace flag."""

    def __init__(self) -> None:
        super().__init__()
        self.p, self.scale, self.ratio, self.value, self.inplace = 0.5, (0.02, 0.33), (0.3, 3.3), 0, False


OTHERS = [BatchRenorm2d, EvoNorm2dB0, RunningMeanStd, RandomErasing]


@pytest.mark.parametrize("form", ["state dict", "without class versions", "module"])
@pytest.mark.parametrize("other", OTHERS, ids=lambda other: other.__name__)
def test_what_only_resembles_a_batch_norm_is_left_alone(other: type[nn.Module], form: str, tmp_path: Path) -> None:
    net = resnet().eval()
    net.other = other()
    state = net.state_dict()
    audit = audit_saved({"state dict": state, "without class versions": dict(state), "module": net}[form], tmp_path)
    assert loud(audit) == []
    assert audit.verdicts[0].outcome is Outcome.PASSED


def test_questions_come_in_one_order(tmp_path: Path) -> None:
    """What the tests above index is the verdict on buffers."""
    assert audit_saved(resnet().state_dict(), tmp_path).verdicts[0].question is Question.BUFFERS
