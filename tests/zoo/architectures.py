"""The architectures of torchvision and timm, built with random weights and without downloading."""

from __future__ import annotations

import inspect
import os
import socket
from typing import Any, NoReturn

import timm
import torch
import torchvision
from torch import nn

SEPARATOR = "/"


def names() -> list[str]:
    """`torchvision/…` and `timm/…`: every architecture, not the pretrained tags, sorted."""
    ours = [f"torchvision/{name}" for name in torchvision.models.list_models()]
    return sorted(ours) + sorted(f"timm/{name}" for name in timm.list_models())


def family(name: str) -> str:
    """The module that defines it: `timm/resnetv2`, `torchvision/resnet`."""
    source, short = name.split(SEPARATOR, 1)
    if source == "timm":
        module = timm.models.model_entrypoint(short).__module__
    else:
        module = torchvision.models.get_model_builder(short).__module__
        if "quantization" in module or "detection" in module or "segmentation" in module or "video" in module:
            return f"{source}/{module.split('.')[-2]}"
    return f"{source}/{module.rsplit('.', 1)[-1]}"


def kind(name: str) -> str:
    """What it takes: `image`, `video`, `flow` (two images) or `detection` (a list of images)."""
    source, short = name.split(SEPARATOR, 1)
    if source == "torchvision":
        models = torchvision.models
        for module, taken in ((models.detection, "detection"), (models.video, "video"), (models.optical_flow, "flow")):
            if short in models.list_models(module):
                return taken
    return "image"


def build(name: str, seed: int) -> nn.Module:
    """Random weights, drawn with the seed. Raises whatever the library raises where it wants a download."""
    source, short = name.split(SEPARATOR, 1)
    torch.manual_seed(seed)
    if source == "timm":
        return timm.create_model(short, pretrained=False)
    builder = torchvision.models.get_model_builder(short)
    accepted = inspect.signature(builder).parameters
    options: dict[str, Any] = {"weights": None}
    if "weights_backbone" in accepted:
        options["weights_backbone"] = None
    return builder(**options)


def parameters(name: str) -> int:
    """How many parameters it has, counted on the meta device, where nothing is drawn or allocated.

    Some builders look at values, which the meta device does not have; those nets are built for real.
    """
    try:
        with torch.device("meta"):
            net = build(name, 0)
    except NotImplementedError:
        net = build(name, 0)
    return sum(parameter.numel() for parameter in net.parameters())


def stay_offline() -> None:
    """From here on this process opens no connection: what wants a download fails at once, and says so."""
    os.environ["HF_HUB_OFFLINE"] = "1"

    def refuse(*_: object, **__: object) -> NoReturn:
        raise ConnectionError("the zoo is built offline: this architecture wants a download")

    socket.socket.connect = refuse  # type: ignore[method-assign]
    socket.create_connection = refuse
