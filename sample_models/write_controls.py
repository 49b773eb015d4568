"""Files that look suspicious and are not: an audit must stay calm, or explain."""

from __future__ import annotations

from pathlib import Path

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from sample_models.digits import DigitNet, build, build_finetune, build_group_norm, build_keras_port
from sample_models.training import train
from sample_models.write_healthy import Trained, Writer


def ported_from_keras(trained: Trained, path: Path) -> None:
    """Trained with Keras' epsilon, then loaded as ports do: weights and statistics, never a counter."""
    source = DigitNet(lambda channels: torch.nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01))
    train(source, trained.digits, trained.steps)
    state = {name: value for name, value in source.state_dict().items() if not name.endswith("num_batches_tracked")}
    ported = build_keras_port()
    ported.load_state_dict(state, strict=False)
    torch.save(ported.eval(), path)


def fresh_head(trained: Trained, path: Path) -> None:
    net = build_finetune()
    backbone = {name: value for name, value in trained.net.state_dict().items() if not name.startswith("fc.")}
    net.load_state_dict(backbone, strict=False)
    torch.save(net.state_dict(), path)


def fresh_model(trained: Trained, path: Path) -> None:
    torch.save(build().state_dict(), path)


def ema_with_copied_buffers(trained: Trained, path: Path) -> None:
    net = build()
    average = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    train(net, trained.digits, trained.steps, after_step=lambda: average.update_parameters(net))
    torch.save({"model": net.state_dict(), "model_ema": average.state_dict(), "epoch": 10}, path)


def group_norm(trained: Trained, path: Path) -> None:
    net = build_group_norm()
    train(net, trained.digits, trained.steps)
    torch.save(net.state_dict(), path)


WRITERS: dict[str, Writer] = {
    "controls/ported_from_keras.pt": ported_from_keras,
    "controls/fresh_head.pt": fresh_head,
    "controls/fresh_model.pt": fresh_model,
    "controls/ema_with_copied_buffers.pth": ema_with_copied_buffers,
    "controls/group_norm.pt": group_norm,
}
