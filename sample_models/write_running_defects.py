"""One file per defect that only a run can show, in the carriers that hold it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from sample_models import digit_defects as nets
from sample_models.archives import drop_stack_traces
from sample_models.small_digits import SmallNet, build_small
from sample_models.training import optimizer_of, train
from sample_models.write_healthy import Trained, Writer, export_onnx, exported, save_script

RATE = 0.05


def trained_small(build: Callable[[], nn.Module], trained: Trained) -> nn.Module:
    """The factory's network after training, in eval mode."""
    net = build()
    train(net, trained.digits, trained.steps, optimizer_of(net, RATE))
    return net.eval()


def state_of(build: Callable[[], nn.Module]) -> Writer:
    """Writes the state dict of the trained network."""

    def write(trained: Trained, path: Path) -> None:
        torch.save(trained_small(build, trained).state_dict(), path)

    return write


def module_of(build: Callable[[], nn.Module]) -> Writer:
    """Pickles the trained network as a whole."""

    def write(trained: Trained, path: Path) -> None:
        torch.save(trained_small(build, trained), path)

    return write


def script_of(build: Callable[[], nn.Module]) -> Writer:
    """Scripts the trained network."""

    def write(trained: Trained, path: Path) -> None:
        save_script(torch.jit.script(trained_small(build, trained)), path)

    return write


def program_of(build: Callable[[], nn.Module]) -> Writer:
    """Exports the trained network with torch.export."""

    def write(trained: Trained, path: Path) -> None:
        torch.export.save(exported(trained_small(build, trained), trained.example), path)
        drop_stack_traces(path)

    return write


def graph_of(build: Callable[[], nn.Module]) -> Writer:
    """Exports the trained network to ONNX with its norms kept."""

    def write(trained: Trained, path: Path) -> None:
        export_onnx(trained_small(build, trained), trained.example, path, do_constant_folding=False)

    return write


def stale_mean(trained: Trained, path: Path) -> None:
    """The second norm's mean is one standard deviation off, as after a change of the preprocessing behind it."""
    state = trained_small(build_small, trained).state_dict()
    state["bn2.running_mean"] += state["bn2.running_var"].sqrt()
    torch.save(state, path)


def stale_variance(trained: Trained, path: Path) -> None:
    net = trained_small(build_small, trained)
    net.get_buffer("bn2.running_var").mul_(4)
    export_onnx(net, trained.example, path, do_constant_folding=False)


def range_of_the_batch(trained: Trained, path: Path) -> None:
    """onnxruntime's dynamic quantization: the range of the activations is that of the whole batch."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole.onnx"
        graph_of(build_small)(trained, whole)
        quantize_dynamic(whole, path, weight_type=QuantType.QInt8)


def squeezing(trained: Trained, path: Path) -> None:
    """One logit: the digit is five or more."""
    source = trained_small(build_small, trained)
    assert isinstance(source, SmallNet) and isinstance(source.fc, nn.Linear)
    net = nets.build_squeezing()
    state = source.state_dict()
    state["fc.weight"] = state["fc.weight"][5:].mean(0, keepdim=True) - state["fc.weight"][:5].mean(0, keepdim=True)
    state["fc.bias"] = state["fc.bias"][5:].mean(0, keepdim=True) - state["fc.bias"][:5].mean(0, keepdim=True)
    net.load_state_dict(state)
    save_script(torch.jit.script(net.eval()), path)


def frozen_twin(trained: Trained, path: Path) -> None:
    """A trained backbone, frozen; the classifier is trained further."""
    net = nets.build_frozen_twin()
    net.load_state_dict(trained_small(build_small, trained).state_dict())
    train(net, trained.digits._replace(inputs=1 - trained.digits.inputs), 44)
    torch.save(net.state_dict(), path)


WRITERS: dict[str, Writer] = {
    "defects/functional_norm.pt": state_of(nets.build_functional),
    "defects/hand_made_norm.pt": module_of(nets.build_hand_made),
    "defects/norm_made_in_forward.pt": state_of(nets.build_norm_in_forward),
    "defects/train_overridden.pt": state_of(nets.build_stubborn),
    "defects/always_dropping.pt": state_of(nets.build_always_dropping),
    "defects/noisy_input.onnx": graph_of(nets.build_noisy),
    "defects/one_norm_untracked.pt2": program_of(nets.build_one_untracked),
    "defects/squeezed_batch_axis.pt": squeezing,
    "defects/carried_in_an_attribute.pt": script_of(nets.build_carrying),
    "defects/buffer_moves_in_eval.pt": state_of(nets.build_centering),
    "defects/minibatch_spread.onnx": graph_of(nets.build_minibatch_spread),
    "defects/softmax_over_batch.pt2": program_of(nets.build_batch_softmax),
    "defects/attention_over_batch.pt": module_of(nets.build_batch_attention),
    "defects/mean_of_rows_so_far.onnx": graph_of(nets.build_running_mean),
    "defects/row_number.pt": script_of(nets.build_row_number),
    "defects/batch_first_forgotten.onnx": graph_of(nets.build_read_along_batch),
    "defects/range_of_the_batch.onnx": range_of_the_batch,
    "defects/stale_mean.pt": stale_mean,
    "defects/stale_variance.onnx": stale_variance,
    "defects/norm_for_two_populations.pt": state_of(nets.build_reused_norm),
    "defects/one_value_per_statistic.pt": state_of(nets.build_constant_gate),
    "defects/frozen_but_trained_norms.pt": frozen_twin,
}
