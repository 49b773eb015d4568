"""Recurrent nets: LSTM and GRU beside batch norms, and a streaming net that remembers between calls by design."""

from __future__ import annotations

import torch
from fault_matrix.architectures.training import fitted, images
from fault_matrix.values import Architecture, Design, Inputs
from torch import nn

_FEATURES, _STEPS = 36, 12


def rows() -> Inputs:
    """64 images read row by row, (64, 12, 36): 12 steps of 36 features."""
    (pictures,) = images()
    return (pictures.transpose(1, 2).flatten(2).contiguous(),)


class Classifier(nn.Module):
    """A norm of the features, two recurrent layers with dropout between them, a norm of the last state."""

    def __init__(self, recurrent: type[nn.RNNBase]) -> None:
        super().__init__()
        self.bn_in = nn.BatchNorm1d(_FEATURES)
        self.rnn = recurrent(_FEATURES, 16, num_layers=2, batch_first=True, dropout=0.1)
        self.bn_out, self.fc = nn.BatchNorm1d(16), nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.bn_in(x.transpose(1, 2)).transpose(1, 2)
        return self.fc(self.bn_out(self.rnn(x)[0][:, -1]))


class Streaming(nn.Module):
    """Speech in pieces: the state after one piece begins the next, until `reset` is called."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv1d(_FEATURES, 16, 3, padding=1, bias=False), nn.BatchNorm1d(16)
        self.gru, self.fc = nn.GRU(16, 16, batch_first=True), nn.Linear(16, 10)
        self.register_buffer("state", torch.zeros(1, 1, 16), persistent=False)

    @torch.jit.export
    def reset(self) -> None:
        self.state = torch.zeros(1, 1, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.bn(self.conv(x.transpose(1, 2)))).transpose(1, 2)
        if self.training or self.state.shape[1] != x.shape[0]:
            self.state = torch.zeros(1, x.shape[0], 16, device=x.device)
        y, state = self.gru(x, self.state)
        if not self.training:
            self.state = state.detach()
        return self.fc(y[:, -1])


def _streaming() -> nn.Module:
    net = Streaming()
    fitted(net, rows())
    net.reset()
    return net


ARCHITECTURES = [
    Architecture("LSTM classifier", lambda: fitted(Classifier(nn.LSTM), rows(), steps=60), rows),
    Architecture("GRU classifier", lambda: fitted(Classifier(nn.GRU), rows(), steps=60), rows),
    Architecture(
        "streaming net",
        _streaming,
        rows,
        # Beside something that draws, history cannot be told from chance, and BN402 tells of the state by itself: it is
        # meant of the net's own buffer alone, not of its norm's.
        designs=(Design("BN306", "", (("BN306", "*"), ("BN402", ""))),),
        left_out={
            **dict.fromkeys(("traced", "ONNX", "ONNX, folded"), "a trace keeps no attribute that forward() sets"),
            "exported": "torch.export makes the first call's branch a constant: each call begins anew",
            "ONNX by dynamo": "it fails to decompose what torch.export has made",
        },
    ),
]
