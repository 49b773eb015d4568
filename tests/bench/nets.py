"""The networks that the measured benchmark runs, built with a seed: plain PyTorch, random weights."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn


class Bottleneck(nn.Module):
    """1×1, 3×3, 1×1 convolutions with norms, as in He et al. (2016), "Deep Residual Learning", table 1."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        y = torch.relu(self.bn2(self.conv2(y)))
        return torch.relu(self.bn3(self.conv3(y)) + self.downsample(x))


class ResNet50(nn.Module):
    """The shape of ResNet-50: 25.6 million parameters, 53 batch norms with 26,560 channels."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        stages: list[nn.Module] = []
        inputs = 64
        for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            stage: list[nn.Module] = []
            for position in range(blocks):
                stage.append(Bottleneck(inputs, width, stride if position == 0 else 1))
                inputs = 4 * width
            stages.append(nn.Sequential(*stage))
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.fc = nn.Linear(2048, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class LeakingNorm(nn.BatchNorm2d):
    """Stays in training mode whatever eval() says: one defect."""

    def train(self, mode: bool = True) -> LeakingNorm:
        super().train(True)
        return self


class TinyLayers(nn.Module):
    """A thousand layers that compute almost nothing: what is left is the cost of watching."""

    def __init__(self, layers: int = 1000) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.BatchNorm1d(4) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def moved(net: nn.Module, batch: torch.Tensor, batches: int = 4) -> nn.Module:
    """The net with running statistics that fit the batch, in eval mode."""
    for module in net.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.momentum = None
    net.train()
    with torch.no_grad():
        for _ in range(batches):
            net(batch)
    return net.eval()


def resnet50() -> tuple[nn.Module, torch.Tensor]:
    """A ResNet-50 with statistics, and a batch of 4 at 224 px."""
    torch.manual_seed(0)
    batch = torch.randn(4, 3, 224, 224)
    return moved(ResNet50(), batch, 1), batch


def leaking_resnet50() -> tuple[nn.Module, torch.Tensor]:
    """The same with one norm that never leaves training mode."""
    net, batch = resnet50()
    block = net.get_submodule("layer3.2")
    leak = LeakingNorm(256)
    leak.load_state_dict(block.get_submodule("bn2").state_dict())
    block.bn2 = leak
    return net.eval(), batch


def transformer() -> tuple[nn.Module, torch.Tensor]:
    """Twelve encoder layers of width 768 and a batch of four sequences of 128."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True, activation="gelu")
    return nn.TransformerEncoder(layer, 12).eval(), torch.randn(4, 128, 768)


def tiny_layers() -> tuple[nn.Module, torch.Tensor]:
    """A thousand tiny norms and a batch of 4."""
    torch.manual_seed(0)
    batch = torch.randn(4, 4)
    return TinyLayers().eval(), batch


NETS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor]]] = {
    "resnet50": resnet50,
    "leaking": leaking_resnet50,
    "transformer": transformer,
    "tiny": tiny_layers,
}
