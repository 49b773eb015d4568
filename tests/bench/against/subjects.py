"""One healthy trained net and eight defective ones made from it, each as state dict, pickled module and ONNX.

    python subjects.py FOLDER      writes FOLDER/<name>.{state.pt,module.pt,onnx}, the inputs, and FOLDER/same.json
    python subjects.py FOLDER resnet50

`same.json` says in which forms a defective net is, bit for bit, the healthy one: such a file cannot show the defect.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from bench.against.leaking import AlwaysBatchStatistics
from torch import nn
from torch.onnx import TrainingMode

from sample_models.digit_defects import StubbornNorm
from sample_models.digits import DigitNet, untracked_norm
from sample_models.training import Digits, load_digits, train
from sample_models.write_healthy import export_onnx, export_onnx_dynamo

STEPS = 440
BATCH = 16


def norms(net: nn.Module) -> list[nn.BatchNorm2d]:
    return [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]


def eval_leak(net: DigitNet, digits: Digits) -> nn.Module:
    """Every norm calls batch_norm with training=True."""
    for norm in norms(net):
        norm.__class__ = AlwaysBatchStatistics
    return net


def partial_leak(net: DigitNet, digits: Digits) -> nn.Module:
    """One norm of six ignores eval()."""
    net.get_submodule("layer2.0.bn1").__class__ = StubbornNorm
    return net.train().eval()


def no_tracking(net: DigitNet, digits: Digits) -> nn.Module:
    """Norms without running statistics, trained on so."""
    untracked = DigitNet(untracked_norm)
    untracked.load_state_dict(net.state_dict(), strict=False)
    train(untracked, digits, 44)
    return untracked.eval()


def frozen_but_updating(net: DigitNet, digits: Digits) -> nn.Module:
    """Only the classifier was trained on, with other images; the frozen norms' statistics followed them."""
    net.requires_grad_(False)
    net.fc.requires_grad_(True)
    train(net.train(), digits._replace(inputs=1 - digits.inputs), 44)
    return net.eval()


def stale_after_freeze(net: DigitNet, digits: Digits) -> nn.Module:
    """Tracking switched off to freeze the norms, trained on, the old buffers left behind."""
    for norm in norms(net):
        norm.requires_grad_(False)
        norm.track_running_stats = False
    train(net.train(), digits, 44)
    return net.eval()


def buffers_stripped(net: DigitNet, digits: Digits) -> nn.Module:
    """A filter dropped running_mean and running_var; loaded with strict=False they are 0 and 1."""
    fresh = DigitNet()
    fresh.load_state_dict(stripped(net), strict=False)
    return fresh.eval()


def stripped(net: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value for name, value in net.state_dict().items() if ".running_" not in name}


def buffers_reset(net: DigitNet, digits: Digits) -> nn.Module:
    """reset_running_stats() was called after training."""
    for norm in norms(net):
        norm.reset_running_stats()
    return net


def exported_in_training_mode(net: DigitNet, digits: Digits) -> nn.Module:
    """Saved and exported without eval()."""
    return net.train()


DEFECTS: dict[str, Callable[[DigitNet, Digits], nn.Module]] = {
    "eval leak": eval_leak,
    "partial leak": partial_leak,
    "no tracking": no_tracking,
    "frozen but updating": frozen_but_updating,
    "stale after freeze": stale_after_freeze,
    "buffers stripped": buffers_stripped,
    "buffers reset": buffers_reset,
    "exported in training mode": exported_in_training_mode,
}


def write(folder: Path) -> None:
    """All nine in all forms, and what they are given to run on."""
    digits = load_digits()
    torch.manual_seed(0)
    net = DigitNet()
    train(net, digits, STEPS)
    net.eval()
    held_out = digits.held_out_inputs
    data = {"inputs": held_out, "labels": digits.held_out_labels, "batch": torch.tensor(BATCH)}
    torch.save(data, folder / "inputs.pt")
    np.savez(folder / "inputs.npz", inputs=held_out.numpy())
    save(net, folder, "healthy", held_out[:8])
    same = {}
    for name, make in DEFECTS.items():
        save(make(copy.deepcopy(net), digits), folder, name, held_out[:8])
        same[name] = [form for form in ("state.pt", "onnx") if equal(folder, name, form)]
    (folder / "same.json").write_text(json.dumps(same), encoding="utf-8")


def save(net: nn.Module, folder: Path, name: str, example: torch.Tensor) -> None:
    """The three forms, in the mode that the net is in."""
    state = stripped(net) if name == "buffers stripped" else net.state_dict()
    torch.save(state, folder / f"{name}.state.pt")
    torch.save(net, folder / f"{name}.module.pt")
    if not norms(net)[0].track_running_stats and norms(net)[0].running_mean is None:
        export_onnx_dynamo(copy.deepcopy(net), example, folder / f"{name}.onnx")  # the other exporter refuses it
        return
    mode = TrainingMode.TRAINING if net.training else TrainingMode.EVAL
    export_onnx(copy.deepcopy(net), example, folder / f"{name}.onnx", training=mode, do_constant_folding=False)


def equal(folder: Path, name: str, form: str) -> bool:
    """Whether it is the healthy one in this form."""
    mine, healthy = folder / f"{name}.{form}", folder / f"healthy.{form}"
    if form == "onnx":
        return mine.read_bytes() == healthy.read_bytes()
    one, other = (torch.load(path, weights_only=True) for path in (mine, healthy))
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def write_resnet50(folder: Path) -> None:
    """The net that the measured audit is timed on, with a batch of 4 and companions to exchange."""
    from bench.nets import resnet50

    net, batch = resnet50()
    net.warm = True
    torch.save(net, folder / "resnet50.module.pt")
    many = torch.cat([batch, batch + 0.5, batch.flip(-1)])
    labels = torch.arange(len(many))
    torch.save({"inputs": many, "labels": labels, "batch": torch.tensor(len(batch))}, folder / "resnet50.inputs.pt")


if __name__ == "__main__":
    torch.set_num_threads(1)
    target = Path(sys.argv[1])
    write_resnet50(target) if sys.argv[2:] else write(target)
