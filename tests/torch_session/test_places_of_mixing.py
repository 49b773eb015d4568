"""Which operator is found to let samples of one batch meet, and which are not."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_session.recorded import places_of_mixing, recorded

from bnaudit.session import Held, Watch

SIZE, ANCHORS = 6, (0, 3, 5)


def sequences(length: int = 7, features: int = 8) -> torch.Tensor:
    return torch.randn(SIZE, length, features, generator=torch.Generator().manual_seed(2))


class Made(nn.Module):
    """A linear layer, a function, and a head."""

    def __init__(self, function: object, features: int = 8) -> None:
        super().__init__()
        self.first = nn.Linear(features, features)
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.first(x)).tanh()


def batch_attention(x: torch.Tensor) -> torch.Tensor:
    flat = x.flatten(1)
    return (flat @ flat.t() * 0.01).softmax(-1) @ flat


def gram(x: torch.Tensor) -> torch.Tensor:
    flat = x.flatten(1)
    return flat @ (flat.t() @ flat)


def written_in_place(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[3] += y[2]
    return y


def scaled_by_range(x: torch.Tensor) -> torch.Tensor:
    return x / x.abs().max().item()


MIXERS = {
    "softmax": lambda x: F.softmax(x, dim=0),
    "cumsum": lambda x: x.cumsum(0),
    "sort": lambda x: x.sort(0).values,
    "flip": lambda x: x.flip(0),
    "roll": lambda x: x.roll(1, 0),
    "centred": lambda x: x - x.mean(0, keepdim=True),
    "centred without keepdim": lambda x: x - x.mean(0),
    "standard deviation": lambda x: x / x.std(0).mean(),
    "range": scaled_by_range,
    "batch attention": batch_attention,
    "gram matrix": gram,
    "in place": written_in_place,
    "shuffled": lambda x: x[[1, 0, 2, 3, 5, 4]],
    "transposed first": lambda x: x.transpose(0, 1).cumsum(1).transpose(0, 1),
    "time for batch": lambda x: x.transpose(0, 1).contiguous().softmax(1),
    "batch norm": lambda x: F.batch_norm(x.transpose(1, 2), None, None, training=True),
    "folded batch norm": lambda x: F.batch_norm(x.reshape(-1, 8), None, None, training=True),
}

CLEAN = {
    "softmax": lambda x: x.softmax(-1),
    "time": lambda x: x.cumsum(1).flip(1),
    "layer norm": lambda x: F.layer_norm(x, (8,)),
    "instance norm": lambda x: F.instance_norm(x.transpose(1, 2)),
    "group norm": lambda x: F.group_norm(x.transpose(1, 2), 2),
    "transposed": lambda x: x.transpose(0, 1).contiguous().cumsum(0).transpose(0, 1),
    "folded": lambda x: x.reshape(-1, 8).relu().view(SIZE, -1, 8).mean(1),
    "folded time first": lambda x: x.transpose(0, 1).reshape(-1, 8).relu().view(-1, SIZE, 8).transpose(0, 1),
    "two copies": lambda x: torch.cat([x, x.flip(1)]).relu().chunk(2)[1],
    "stacked": lambda x: torch.stack([x, -x]).relu().sum(0),
    "heads": lambda x: x.view(SIZE, -1, 2, 4).transpose(1, 2).reshape(SIZE * 2, -1, 4).softmax(-1).view(SIZE, 2, -1, 4),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "position": lambda x: x + torch.arange(8.0) + torch.eye(8)[:1],
    "repeated": lambda x: x.repeat_interleave(2, 0).relu().view(SIZE, 2, -1),
    "in place": lambda x: x.clone().relu_().add_(1).mul_(2),
    "dropped": lambda x: F.dropout(x, 0.5, training=True),
    "pieces": lambda x: torch.cat([row[None] * 2 for row in x]),
    "copied pieces": lambda x: torch.stack([part.squeeze(0).relu() for part in x.split(1)]),
}


@pytest.mark.parametrize("name", MIXERS)
@pytest.mark.parametrize("length", [7, SIZE, 2 * SIZE])
def test_what_lets_samples_meet_is_found(name: str, length: int) -> None:
    found = places_of_mixing(Made(MIXERS[name]).eval(), sequences(length), ANCHORS)
    assert found, "nothing was found"
    assert found[0].place.module == ""
    assert found[0].place.operator not in ("aten.addmm", "aten.tanh")
    assert found[0].place.source.startswith("test_places_of_mixing.py:")


@pytest.mark.parametrize("name", CLEAN)
@pytest.mark.parametrize("length", [7, SIZE, 2 * SIZE])
def test_what_keeps_samples_apart_is_not_named(name: str, length: int) -> None:
    assert places_of_mixing(Made(CLEAN[name]).eval(), sequences(length), ANCHORS) == []


@pytest.mark.parametrize("model", [nn.LSTM(8, 8), nn.GRU(8, 8), nn.TransformerEncoderLayer(8, 2, 16)])
def test_a_batch_read_as_time_is_found(model: nn.Module) -> None:
    assert places_of_mixing(nn.Sequential(nn.Linear(8, 8), model).eval(), sequences(), ANCHORS)


@pytest.mark.parametrize(
    "model",
    [
        nn.LSTM(8, 8, batch_first=True),
        nn.GRU(8, 8, 2, batch_first=True, bidirectional=True),
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).requires_grad_(False).train(),
        nn.MultiheadAttention(8, 2, batch_first=True),
    ],
)
def test_sequence_models_keep_samples_apart(model: nn.Module) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = model

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.part(x, x, x)[0] if isinstance(self.part, nn.MultiheadAttention) else self.part(x)

    for length in (7, SIZE, 2 * SIZE):
        assert places_of_mixing(Net(), sequences(length), ANCHORS) == []


def test_dynamic_quantization_takes_its_range_from_the_batch() -> None:
    model = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), {nn.Linear})
    batch = torch.randn(SIZE, 8, generator=torch.Generator().manual_seed(0))
    first = recorded(model, batch, watch=Watch.ROWS, anchors=ANCHORS).operators
    other = batch.clone()
    other[1] *= 100
    from bnaudit.mixing import mixing

    (found,) = mixing(first, recorded(model, other, watch=Watch.ROWS, anchors=ANCHORS).operators)
    assert (found.place.module, found.place.operator) == ("0", "quantized.linear_dynamic")


def test_the_module_and_line_are_named() -> None:
    class Leaky(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x - x.mean(0)

    (found,) = places_of_mixing(nn.Sequential(nn.Linear(8, 8), Leaky(), nn.Linear(8, 8)), sequences(), ANCHORS)
    assert (found.place.module, found.place.class_name) == ("1", "Leaky")
    assert found.place.source == f"test_places_of_mixing.py:{inspect.getsourcelines(Leaky)[1] + 2}"


def images() -> torch.Tensor:
    return torch.randn(SIZE, 3, 6, 6, generator=torch.Generator().manual_seed(2))


def two_norms() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8)
    )


def test_every_mixing_norm_is_found_when_those_before_it_are_held() -> None:
    model = two_norms().train()
    (first,) = places_of_mixing(model, images(), ANCHORS)
    assert (first.place.module, first.norm) == ("1", 0)
    calls = recorded(model, images()).norm_calls
    held = tuple(Held(index=call.index, mean=call.batch_mean, var=call.batch_var) for call in calls)
    found = places_of_mixing(model, images(), ANCHORS, hold=held)
    assert [call.place.module for call in found] == ["1", "4"]


def test_with_the_first_norm_in_eval_mode_only_the_second_is_named() -> None:
    model = two_norms().eval()
    model[4].train()
    assert [call.place.module for call in places_of_mixing(model, images(), ANCHORS)] == ["4"]
    assert places_of_mixing(model.eval(), images(), ANCHORS) == []


def test_held_statistics_of_the_batch_itself_change_only_rounding() -> None:
    model, results = two_norms().train(), []
    model.register_forward_hook(lambda module, args, result: results.append(result))
    calls = recorded(model, images()).norm_calls
    held = tuple(Held(index=call.index, mean=call.batch_mean, var=call.batch_var) for call in calls)
    recorded(model, images(), hold=held)
    np.testing.assert_allclose(results[0].numpy(), results[1].numpy(), rtol=1e-4, atol=1e-5)
