"""One file per defect, made the way users make it wherever that is possible."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.onnx import TrainingMode
from torch.optim.swa_utils import AveragedModel

from sample_models.archives import drop_stack_traces, rewrite_zip
from sample_models.catalogue import CANARY
from sample_models.digits import build, build_checkpointed, build_plain_list, build_untracked
from sample_models.training import optimizer_of, train
from sample_models.write_healthy import (
    Trained,
    Writer,
    arrays_of,
    export_onnx,
    export_onnx_dynamo,
    exported,
    save_script,
)


def norms_of(net: nn.Module) -> list[nn.BatchNorm2d]:
    """All batch norms of a network, in order."""
    return [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]


def buffers_dropped_at_save(trained: Trained, path: Path) -> None:
    state = trained.net.state_dict()
    torch.save({k: v for k, v in state.items() if not (k.startswith("layer2.") and ".running_" in k)}, path)


def averaged_without_update_bn(trained: Trained, path: Path) -> None:
    net = build()
    average = AveragedModel(net)
    train(net, trained.digits, trained.steps, after_step=lambda: average.update_parameters(net))
    torch.save({"model": net.state_dict(), "model_ema": average.state_dict(), "epoch": 10}, path)


def saved_in_training_mode(trained: Trained, path: Path) -> None:
    torch.save(trained.fresh(training=True), path)


def torchscript_training_mode(trained: Trained, path: Path) -> None:
    save_script(torch.jit.script(trained.fresh(training=True)), path)


def torchscript_traced_then_eval(trained: Trained, path: Path) -> None:
    traced = torch.jit.trace(trained.fresh(training=True), trained.example, check_trace=False)
    save_script(traced.eval(), path)


def exported_in_training_mode(trained: Trained, path: Path) -> None:
    net = trained.fresh(training=True)
    export_onnx(net, trained.example, path, training=TrainingMode.TRAINING, do_constant_folding=False)


def run_time_statistics(trained: Trained, path: Path) -> None:
    net = build_untracked()
    train(net, trained.digits, trained.steps)
    export_onnx_dynamo(net.eval(), trained.example, path)


def exported_program_training_mode(trained: Trained, path: Path) -> None:
    torch.export.save(exported(trained.fresh(training=True), trained.example), path)
    drop_stack_traces(path)


def norm_in_plain_list(trained: Trained, path: Path) -> None:
    net = build_plain_list()
    train(net, trained.digits, trained.steps)
    torch.save(net.eval(), path)


def nan_variance(trained: Trained, path: Path) -> None:
    state = trained.fresh().state_dict()
    state["layer2.0.bn2.running_var"][3] = torch.nan
    torch.save(state, path)


def mean_and_variance_swapped(trained: Trained, path: Path) -> None:
    state = arrays_of(trained.net)
    for name in [name for name in state if name.endswith("running_mean")]:
        other = name.replace("running_mean", "running_var")
        state[name], state[other] = state[other], state[name]
    np.savez(path, **state)


def half_precision_statistics(trained: Trained, path: Path) -> None:
    net = build().to(torch.bfloat16)
    optimizer = optimizer_of(net)
    train(net, trained.digits, trained.steps, optimizer)
    checkpoint = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "step": trained.steps}
    torch.save(checkpoint, path)


def averaged_counters(trained: Trained, path: Path) -> None:
    net = build()
    optimizer = optimizer_of(net)
    states = []
    for steps in (220, 44, 88):
        train(net, trained.digits, steps, optimizer)
        states.append(copy.deepcopy(net.state_dict()))
    torch.save({name: sum(state[name].float() for state in states) / 3 for name in states[0]}, path)


def doubled_counters(trained: Trained, path: Path) -> None:
    net = build_checkpointed()
    train(net, trained.digits, trained.steps)
    torch.save(net.state_dict(), path)


def frozen_but_updating(trained: Trained, path: Path) -> None:
    net = trained.fresh(training=True).requires_grad_(False)
    net.fc.requires_grad_(True)
    inverted = trained.digits._replace(inputs=1 - trained.digits.inputs)
    train(net, inverted, 44)
    torch.save(net, path)


def stale_after_freeze(trained: Trained, path: Path) -> None:
    net = trained.fresh(training=True)
    for norm in norms_of(net):
        norm.requires_grad_(False)
        norm.track_running_stats = False
    train(net, trained.digits, 44)
    torch.save(net.eval(), path)


def virgin_statistics(trained: Trained, path: Path) -> None:
    net = build()
    for norm in norms_of(net):
        norm.eval()
    train(net, trained.digits, trained.steps, optimizer_of(net, rate=0.05))
    torch.save(net.state_dict(), path)


def dry_run_statistics(trained: Trained, path: Path) -> None:
    net = build()
    net(torch.zeros_like(trained.example))
    torch.save(net.state_dict(), path)


def immature_statistics(trained: Trained, path: Path) -> None:
    net = build()
    train(net, trained.digits, 8)
    torch.save(net.state_dict(), path)


def hostile_pickle(trained: Trained, path: Path) -> None:
    """A pickle that calls posix.system, drops the result, and goes on to a good state dict; written as bytes."""
    command = f"touch {CANARY}".encode()
    payload = b"cposix\nsystem\nX" + len(command).to_bytes(4, "little") + command + b"\x85R0"
    torch.save(trained.net.state_dict(), path)
    rewrite_zip(path, lambda name, data: data[:2] + payload + data[2:] if name == "data.pkl" else data)


WRITERS: dict[str, Writer] = {
    "defects/buffers_dropped_at_save.pt": buffers_dropped_at_save,
    "defects/averaged_without_update_bn.pth": averaged_without_update_bn,
    "defects/saved_in_training_mode.pt": saved_in_training_mode,
    "defects/torchscript_training_mode.pt": torchscript_training_mode,
    "defects/torchscript_traced_then_eval.pt": torchscript_traced_then_eval,
    "defects/exported_in_training_mode.onnx": exported_in_training_mode,
    "defects/run_time_statistics.onnx": run_time_statistics,
    "defects/exported_program_training_mode.pt2": exported_program_training_mode,
    "defects/norm_in_plain_list.pt": norm_in_plain_list,
    "defects/nan_variance.pt": nan_variance,
    "defects/mean_and_variance_swapped.npz": mean_and_variance_swapped,
    "defects/half_precision_statistics.ckpt": half_precision_statistics,
    "defects/averaged_counters.pt": averaged_counters,
    "defects/doubled_counters.pt": doubled_counters,
    "defects/frozen_but_updating.pt": frozen_but_updating,
    "defects/stale_after_freeze.pt": stale_after_freeze,
    "defects/virgin_statistics.pt": virgin_statistics,
    "defects/dry_run_statistics.pt": dry_run_statistics,
    "defects/immature_statistics.pt": immature_statistics,
    "defects/hostile_pickle.pt": hostile_pickle,
}
