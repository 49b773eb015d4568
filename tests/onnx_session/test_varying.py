"""A graph with something changed, against PyTorch with the same change and against onnx's reference evaluator."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx_builders import BETA, GAMMA, MEAN, PARAMETERS, VAR, model, node
from onnx_sessions import batch, exported, normal, opened, values
from torch import nn

from bnaudit.session import Mode, NotPossibleError, Session, Watch
from bnaudit.variation import Altered, Variation

NAME = "body.4"
NEW = np.linspace(0.25, 2.0, 4)
X = normal(6, 3, 6, 6)


class Net(nn.Module):
    """Two batch norms behind something else than a convolution, so that no exporter folds them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.body = nn.Sequential(
            nn.BatchNorm2d(3),
            nn.ReLU(),
            nn.Conv2d(3, 4, 3),
            nn.ReLU(),
            nn.BatchNorm2d(4),
            nn.Flatten(),
            nn.Linear(64, 5),
        )
        for norm in (self.body[0], self.body[4]):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
            norm.weight.data.uniform_(0.5, 2)
            norm.bias.data.normal_()
        self.eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = self.body(x)
        return answer


def expected(net: nn.Module, change: Callable[[Any], object]) -> NDArray[Any]:
    """What PyTorch computes after the change."""
    changed = copy.deepcopy(net)
    with torch.no_grad():
        change(changed)
        answer: NDArray[Any] = changed(torch.from_numpy(X)).numpy()
    return answer


def refused(session: Session, variation: Variation, said: str) -> None:
    with pytest.raises(NotPossibleError, match=said), session.varied(variation):
        pass


CHANGES: dict[str, tuple[Altered, Callable[[Any], object]]] = {
    "training": (Altered(training=True), lambda net: net.body[4].train()),
    "mean": (Altered(mean=NEW), lambda net: net.body[4].running_mean.copy_(torch.from_numpy(NEW))),
    "var": (Altered(var=NEW), lambda net: net.body[4].running_var.copy_(torch.from_numpy(NEW))),
    "gamma": (Altered(gamma=NEW), lambda net: net.body[4].weight.copy_(torch.from_numpy(NEW))),
    "beta": (Altered(beta=NEW), lambda net: net.body[4].bias.copy_(torch.from_numpy(NEW))),
    "eps": (Altered(eps=0.3), lambda net: setattr(net.body[4], "eps", 0.3)),
}


@pytest.mark.parametrize("opset", [9, 14, 17])
@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_what_pytorch_computes_with_it(tmp_path: Path, what: str, opset: int) -> None:
    altered, by_hand = CHANGES[what]
    net = Net()
    path = exported(net, torch.from_numpy(X), tmp_path / "net.onnx", opset_version=opset)
    with opened(path, tmp_path) as session:
        as_it_is = values(session.run(batch(X)))
        with session.varied(Variation(layers={NAME: altered})) as varied:
            assert varied.modes == {Mode.INFERENCE}
            got = values(varied.run(batch(X), watch=Watch.NOTHING))
            watched = values(varied.run(batch(X)))
        np.testing.assert_array_equal(values(session.run(batch(X))), as_it_is)
    np.testing.assert_allclose(got, expected(net, by_hand), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(watched, got)
    assert np.abs(got - as_it_is).max() > 1e-2


def test_what_is_seen_inside_is_of_the_changed_graph(tmp_path: Path) -> None:
    path = exported(Net(), torch.from_numpy(X), tmp_path / "net.onnx")
    layers = {"body.0": Altered(mean=np.ones(3), eps=0.5), NAME: Altered(training=True)}
    with opened(path, tmp_path) as session, session.varied(Variation(layers=layers)) as varied:
        first, second = varied.run(batch(X)).norm_calls
    assert (first.layer, first.uses_batch, first.eps) == ("body.0", False, 0.5)
    np.testing.assert_array_equal(first.stored_mean, np.ones(3))
    assert (second.layer, second.uses_batch) == (NAME, True)
    x = torch.from_numpy(X)
    net = Net()
    net.body[0].running_mean.fill_(1.0)
    net.body[0].eps = 0.5
    with torch.no_grad():
        received = net.body[:4](x).double()
    np.testing.assert_allclose(second.batch_mean, received.mean((0, 2, 3)).numpy(), rtol=1e-5, atol=1e-6)


def test_a_parameter_that_two_norms_share_is_changed_for_one(tmp_path: Path) -> None:
    nodes = [
        node("BatchNormalization", ["x", *PARAMETERS], ["h"], name="first"),
        node("BatchNormalization", ["h", *PARAMETERS], ["y"], name="second"),
    ]
    graph = model(nodes, PARAMETERS)
    x = normal(2, 4, 8, 8)
    with opened(graph, tmp_path) as session:
        one, two = (layer.name for layer in session.part.layers)
        with session.varied(Variation(layers={two: Altered(gamma=np.ones(4))})) as varied:
            got = values(varied.run(batch(x)))
    graph.graph.initializer.append(numpy_helper.from_array(np.ones(4, np.float32), "own"))
    graph.graph.node[1].input[1] = "own"
    (by_reference,) = ReferenceEvaluator(graph).run(None, {"x": x})
    np.testing.assert_allclose(got, by_reference, rtol=1e-4, atol=1e-4)
    assert one != two


def test_statistics_behind_identities_and_constants(tmp_path: Path) -> None:
    nodes = [
        node("Identity", ["bn.running_mean"], ["mean"]),
        node("Constant", [], ["var"], value=numpy_helper.from_array(VAR)),
        node("BatchNormalization", ["x", "bn.weight", "bn.bias", "mean", "var"]),
    ]
    x = normal(2, 4, 8, 8)
    with opened(model(nodes, {k: v for k, v in PARAMETERS.items() if k != "bn.running_var"}), tmp_path) as session:
        (layer,) = session.part.layers
        altered = Altered(mean=np.zeros(4), var=np.ones(4), eps=0.0)
        with session.varied(Variation(layers={layer.name: altered})) as varied:
            got = values(varied.run(batch(x)))
    np.testing.assert_allclose(got, x * GAMMA.reshape(-1, 1, 1) + BETA.reshape(-1, 1, 1), rtol=1e-6, atol=1e-6)


def test_other_norms_change_epsilon_and_affine(tmp_path: Path) -> None:
    nodes = [node("InstanceNormalization", ["x", "g", "b"], name="norm", epsilon=1e-5)]
    x = normal(2, 4, 8, 8)
    with opened(model(nodes, {"g": GAMMA, "b": BETA}), tmp_path) as session:
        (layer,) = session.part.layers
        with session.varied(Variation(layers={layer.name: Altered(eps=0.7, gamma=NEW)})) as varied:
            got = values(varied.run(batch(x)))
        refused(session, Variation(layers={layer.name: Altered(mean=MEAN.astype(np.float64))}), "no running mean")
        with session.varied(Variation(layers={layer.name: Altered(training=True)})) as varied:
            np.testing.assert_array_equal(values(varied.run(batch(x))), values(session.run(batch(x))))
    by_torch = nn.functional.instance_norm(
        torch.from_numpy(x), weight=torch.from_numpy(NEW).float(), bias=torch.from_numpy(BETA), eps=0.7
    )
    np.testing.assert_allclose(got, by_torch.numpy(), rtol=1e-5, atol=1e-5)


class TestHalf:
    @pytest.mark.parametrize("opset", [11, 17])
    @pytest.mark.parametrize("name", ["float16", "bfloat16"])
    def test_every_operator_is_rounded(self, tmp_path: Path, name: str, opset: int) -> None:
        net, dtype = Net(), getattr(torch, name)
        path = exported(net, torch.from_numpy(X), tmp_path / "net.onnx", opset_version=opset)

        def rounded(x: torch.Tensor) -> torch.Tensor:
            return x.to(dtype).float()

        with torch.no_grad():
            half = copy.deepcopy(net)
            for tensor in (*half.parameters(), *half.buffers()):
                if tensor.is_floating_point():
                    tensor.copy_(rounded(tensor))
            by_hand = rounded(torch.from_numpy(X))
            for module in half.body:
                by_hand = rounded(module(by_hand))
        with opened(path, tmp_path) as session, session.varied(Variation(dtype=name)) as varied:
            trace = varied.run(batch(X), watch=Watch.NOTHING)
        assert trace.compute_dtype == name
        unit = 2.0**-11 if name == "float16" else 2.0**-8
        got = values(trace)
        np.testing.assert_array_equal(got, rounded(torch.tensor(got)).numpy())
        assert np.abs(got - by_hand.numpy()).max() <= 4 * unit * np.abs(by_hand.numpy()).max()
        # as good as never are two sums of rounded products rounded to different sides
        assert (got == by_hand.numpy()).mean() > 0.9

    def test_training_forms_see_rounded_values(self, tmp_path: Path) -> None:
        net = Net()
        path = exported(net, torch.from_numpy(X), tmp_path / "net.onnx")
        variation = Variation(layers={"body.0": Altered(training=True)}, dtype="bfloat16")
        with opened(path, tmp_path) as session, session.varied(variation) as varied:
            first = varied.run(batch(X)).norm_calls[0]
        rounded = torch.from_numpy(X).bfloat16().double()
        np.testing.assert_allclose(first.batch_mean, rounded.mean((0, 2, 3)).numpy(), rtol=1e-9, atol=1e-12)

    def test_unknown_precisions_are_refused(self, tmp_path: Path) -> None:
        with opened(model([node("BatchNormalization", ["x", *PARAMETERS])], PARAMETERS), tmp_path) as session:
            refused(session, Variation(dtype="float8"), "float8")


class TestDrops:
    def test_a_dropout_that_was_left_drops_by_the_seed(self, tmp_path: Path) -> None:
        nodes = [
            node("BatchNormalization", ["x", *PARAMETERS], ["h"]),
            node("Dropout", ["h", "ratio"], ["y"], name="drop"),
        ]
        graph = model(nodes, {**PARAMETERS, "ratio": np.array(0.5, np.float32)})
        x = normal(2, 4, 8, 8)
        with opened(graph, tmp_path) as session:
            plain = values(session.run(batch(x)))
            with session.varied(Variation(drops=True)) as varied:
                got, same, other = (values(varied.run(batch(x), watch=Watch.NOTHING, seed=seed)) for seed in (3, 3, 4))
                calls = varied.run(batch(x), seed=3).random_calls
        kept = got != 0
        assert 0.3 < kept.mean() < 0.7
        np.testing.assert_allclose(got[kept], 2 * plain[kept], rtol=1e-6)
        np.testing.assert_array_equal(got, same)
        assert not np.array_equal(got, other)
        assert [call.is_dropout for call in calls] == [True]

    def test_a_graph_without_dropout_says_so(self, tmp_path: Path) -> None:
        with opened(model([node("BatchNormalization", ["x", *PARAMETERS])], PARAMETERS), tmp_path) as session:
            refused(session, Variation(drops=True), "no Dropout")

    def test_old_dropouts_never_drop(self, tmp_path: Path) -> None:
        with opened(model([node("Dropout", ["x"])], opset=11), tmp_path) as session:
            refused(session, Variation(drops=True), "opset 11")


class TestRefusals:
    @pytest.mark.parametrize(
        ("altered", "said"),
        [
            (Altered(mean=np.zeros(5)), "shape"),
            (Altered(gamma=np.zeros((4, 1))), "shape"),
        ],
    )
    def test_values_of_another_shape(self, tmp_path: Path, altered: Altered, said: str) -> None:
        with opened(model([node("BatchNormalization", ["x", *PARAMETERS])], PARAMETERS), tmp_path) as session:
            (layer,) = session.part.layers
            refused(session, Variation(layers={layer.name: altered}), said)

    def test_a_layer_that_is_not_there(self, tmp_path: Path) -> None:
        with opened(model([node("BatchNormalization", ["x", *PARAMETERS])], PARAMETERS), tmp_path) as session:
            refused(session, Variation(layers={"nowhere": Altered(training=True)}), "no norm layer nowhere")


def test_weights_in_another_file(tmp_path: Path) -> None:
    net = Net()
    path = exported(net, torch.from_numpy(X), tmp_path / "net.onnx")
    loaded = onnx.load(path)
    folder = tmp_path / "external"
    folder.mkdir()
    onnx.save(
        loaded,
        folder / "net.onnx",
        save_as_external_data=True,
        location="net.data",
        size_threshold=0,
        convert_attribute=True,
    )
    with opened(folder / "net.onnx", tmp_path) as session:
        for variation in (Variation(layers={NAME: Altered(training=True)}), Variation(dtype="float16")):
            with session.varied(variation) as varied:
                got = values(varied.run(batch(X)))
            reference = expected(net, (lambda net: net.body[4].train()) if variation.layers else (lambda net: None))
            np.testing.assert_allclose(got, reference, rtol=2e-2, atol=2e-2)
