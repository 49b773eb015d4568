"""Transformers: LayerNorm with attention dropout, RMSNorm with rotary positions, and a stem with batch norms."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from fault_matrix.architectures.training import fitted, images
from fault_matrix.values import Architecture
from torch import nn

_WIDTH, _HEADS = 16, 2


class Attention(nn.Module):
    """Self-attention by the fused operator, with dropout of its weights in training mode only."""

    def __init__(self, dropout: float = 0.1) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(_WIDTH, 3 * _WIDTH), nn.Linear(_WIDTH, _WIDTH)
        self.heads, self.dropout = _HEADS, dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0.0)
        return self.proj(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Norm first: attention, then two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(_WIDTH), Attention()
        self.norm2 = nn.LayerNorm(_WIDTH)
        self.mlp = nn.Sequential(nn.Linear(_WIDTH, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, _WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    """Patches, a class token, two blocks, a head; the stem makes the patches."""

    def __init__(self, stem: nn.Module) -> None:
        super().__init__()
        self.stem = stem
        self.token = nn.Parameter(torch.zeros(1, 1, _WIDTH))
        self.positions = nn.Parameter(0.02 * torch.randn(1, 10, _WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm, self.head = nn.LayerNorm(_WIDTH), nn.Linear(_WIDTH, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


def _plain_stem() -> nn.Module:
    return nn.Conv2d(3, _WIDTH, 4, stride=4)


def _convolutional_stem() -> nn.Module:
    """As LeViT and its kin begin."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, _WIDTH, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(_WIDTH),
    )


class Encoder(nn.Module):
    """PyTorch's own encoder layers, which take a fused path in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(36, _WIDTH)
        layer = nn.TransformerEncoderLayer(_WIDTH, _HEADS, 32, 0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(_WIDTH, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.embed(x.transpose(1, 2).flatten(2))).mean(1))


class Rotary(nn.Module):
    """Rotary positions from tables that are made at the first forward, and again where a sequence is longer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("frequencies", 100.0 ** (-torch.arange(0, width, 2) / width), persistent=False)
        self.register_buffer("cos", torch.ones(0, width), persistent=False)
        self.register_buffer("sin", torch.zeros(0, width), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[2]
        if self.cos.shape[0] < length:
            angles = torch.outer(torch.arange(length), self.frequencies).repeat(1, 2)
            self.cos, self.sin = angles.cos(), angles.sin()
        half = x.shape[3] // 2
        turned = torch.cat([-x[..., half:], x[..., :half]], 3)
        return x * self.cos[:length] + turned * self.sin[:length]


class RotaryBlock(nn.Module):
    """RMSNorm, causal attention with rotary positions, and a gated linear layer, as language models have them."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(_WIDTH), nn.RMSNorm(_WIDTH)
        self.qkv, self.proj = nn.Linear(_WIDTH, 3 * _WIDTH, bias=False), nn.Linear(_WIDTH, _WIDTH, bias=False)
        self.gate, self.up = nn.Linear(_WIDTH, 32, bias=False), nn.Linear(_WIDTH, 32, bias=False)
        self.down = nn.Linear(32, _WIDTH, bias=False)
        self.rotary, self.heads = Rotary(_WIDTH // _HEADS), _HEADS

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(self.rotary(q), self.rotary(k), v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class RotaryTransformer(nn.Module):
    """The rows of an image are its sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(36, _WIDTH)
        self.blocks = nn.ModuleList(RotaryBlock() for _ in range(2))
        self.norm, self.head = nn.RMSNorm(_WIDTH), nn.Linear(_WIDTH, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x.transpose(1, 2).flatten(2))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


ARCHITECTURES = [
    Architecture(
        "transformer with LayerNorm", lambda: fitted(VisionTransformer(_plain_stem()), images(), steps=40), images
    ),
    Architecture(
        "transformer with a batch norm stem",
        lambda: fitted(VisionTransformer(_convolutional_stem()), images(), steps=60),
        images,
    ),
    Architecture("PyTorch's encoder", lambda: fitted(Encoder(), images(), steps=40), images),
    Architecture(
        "transformer with RMSNorm",
        lambda: fitted(RotaryTransformer(), images(), steps=40),
        images,
        left_out=dict.fromkeys(("ONNX", "ONNX, folded"), "the older exporter knows no aten::rms_norm"),
    ),
]
