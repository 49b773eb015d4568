"""The same trained model in every format."""

from __future__ import annotations

import copy
import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from sample_models.archives import drop_debug_files, drop_stack_traces, without_traces
from sample_models.digits import DigitNet
from sample_models.training import Digits

ONNX_NAMES: dict[str, Any] = {"input_names": ["images"], "output_names": ["logits"]}
FREE_BATCH = {"images": {0: "batch"}, "logits": {0: "batch"}}


class Trained(NamedTuple):
    """What the writers start from; `net` is in eval mode, and nobody changes it: `fresh` gives copies."""

    digits: Digits
    net: DigitNet
    optimizer: torch.optim.Optimizer
    steps: int

    def fresh(self, training: bool = False) -> DigitNet:
        """A copy of the trained network to change at will."""
        return copy.deepcopy(self.net).train(training)

    @property
    def example(self) -> torch.Tensor:
        """Eight real images."""
        return self.digits.held_out_inputs[:8].clone()


Writer = Callable[[Trained, Path], None]


def state_dict(trained: Trained, path: Path) -> None:
    torch.save(trained.net.state_dict(), path)


def state_dict_legacy(trained: Trained, path: Path) -> None:
    torch.save(trained.net.state_dict(), path, _use_new_zipfile_serialization=False)


def training_checkpoint(trained: Trained, path: Path) -> None:
    checkpoint = {
        "epoch": 10,
        "global_step": trained.steps,
        "pytorch-lightning_version": "2.5.0",
        "state_dict": {f"model.{name}": value for name, value in trained.net.state_dict().items()},
        "loops": {},
        "callbacks": {},
        "optimizer_states": [trained.optimizer.state_dict()],
        "lr_schedulers": [],
        "hyper_parameters": {"width": 8, "rate": 0.1},
    }
    torch.save(checkpoint, path)


def pickled_module(trained: Trained, path: Path) -> None:
    torch.save(trained.fresh(), path)


def torchscript_scripted(trained: Trained, path: Path) -> None:
    save_script(torch.jit.script(trained.fresh()), path)


def torchscript_traced(trained: Trained, path: Path) -> None:
    save_script(torch.jit.trace(trained.fresh(), trained.example), path)


def torchscript_frozen(trained: Trained, path: Path) -> None:
    save_script(torch.jit.freeze(torch.jit.script(trained.fresh())), path)


def save_script(script: torch.jit.ScriptModule, path: Path) -> None:
    """Save TorchScript without the paths of its source files."""
    torch.jit.save(script, path)
    drop_debug_files(path)


def exported(net: nn.Module, example: torch.Tensor) -> torch.export.ExportedProgram:
    """The module exported with a free batch size."""
    return torch.export.export(net, (example,), dynamic_shapes={"x": {0: torch.export.Dim("batch", min=1, max=4096)}})


def exported_program(trained: Trained, path: Path) -> None:
    torch.export.save(exported(trained.fresh(), trained.example), path)
    drop_stack_traces(path)


def exported_program_flat(trained: Trained, path: Path) -> None:
    """As `torch.export.save` of PyTorch 2.7 wrote it: the same parts, side by side in one zip."""
    from torch._export.serde.schema import SCHEMA_VERSION
    from torch._export.serde.serialize import serialize

    artifact = serialize(exported(trained.fresh(), trained.example))
    parts: dict[str, bytes | str] = {
        "version": ".".join(map(str, SCHEMA_VERSION)),
        "serialized_exported_program.json": without_traces(artifact.exported_program),
        "serialized_state_dict.pt": artifact.state_dict,
        "serialized_constants.pt": artifact.constants,
        "serialized_example_inputs.pt": artifact.example_inputs,
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(zipfile.ZipInfo(name), data)


def safetensors(trained: Trained, path: Path) -> None:
    from safetensors.torch import save_file

    save_file(trained.net.state_dict(), path, {"format": "pt"})


def hf_safetensors(trained: Trained, path: Path) -> None:
    from safetensors.torch import save_file

    _write_shards(trained, path, "model", "safetensors", lambda shard, file: save_file(shard, file, {"format": "pt"}))


def hf_bin(trained: Trained, path: Path) -> None:
    _write_shards(trained, path, "pytorch_model", "bin", torch.save)


def distributed_checkpoint(trained: Trained, path: Path) -> None:
    """One process; the metadata without the path and the random id of this saving."""
    from torch.distributed.checkpoint import FileSystemWriter, save

    save({"model": trained.net.state_dict()}, storage_writer=FileSystemWriter(path, sync_files=False), no_dist=True)
    metadata = pickle.loads((path / ".metadata").read_bytes())
    metadata.storage_meta = None
    (path / ".metadata").write_bytes(pickle.dumps(metadata))


def _write_shards(
    trained: Trained, folder: Path, stem: str, suffix: str, save: Callable[[dict[str, torch.Tensor], Path], object]
) -> None:
    folder.mkdir(exist_ok=True)
    state = dict(trained.net.state_dict())
    names = list(state)
    halves = (names[: len(names) // 2], names[len(names) // 2 :])
    weight_map = {}
    for number, half in enumerate(halves, start=1):
        file = f"{stem}-{number:05d}-of-00002.{suffix}"
        save({name: state[name] for name in half}, folder / file)
        weight_map.update(dict.fromkeys(half, file))
    size = sum(value.numel() * value.element_size() for value in state.values())
    _write_json(folder / f"{stem}.{suffix}.index.json", {"metadata": {"total_size": size}, "weight_map": weight_map})
    _write_json(folder / "config.json", {"architectures": ["DigitNet"], "model_type": "digits", "num_labels": 10})


def _write_json(path: Path, document: object) -> None:
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8", newline="\n")


def arrays_of(net: nn.Module) -> dict[str, np.ndarray]:
    """The state dict as NumPy arrays."""
    return {name: value.numpy().copy() for name, value in net.state_dict().items()}


def arrays(trained: Trained, path: Path) -> None:
    np.savez(path, **arrays_of(trained.net))


def detectron2_style(trained: Trained, path: Path) -> None:
    checkpoint = {"model": arrays_of(trained.net), "__author__": "bnaudit samples", "matching_heuristics": True}
    path.write_bytes(pickle.dumps(checkpoint, protocol=4))


def norms_kept(trained: Trained, path: Path) -> None:
    export_onnx(trained.fresh(), trained.example, path, do_constant_folding=False)


def norms_folded(trained: Trained, path: Path) -> None:
    export_onnx(trained.fresh(), trained.example, path)


def export_onnx(net: nn.Module, example: torch.Tensor, path: Path, **settings: Any) -> None:
    """Export with the TorchScript exporter and a free batch size."""
    buffer = io.BytesIO()
    torch.onnx.export(net, (example,), buffer, dynamo=False, dynamic_axes=FREE_BATCH, **ONNX_NAMES, **settings)
    path.write_bytes(buffer.getvalue())


def export_onnx_dynamo(net: nn.Module, example: torch.Tensor, path: Path, **settings: Any) -> None:
    """Export with the dynamo exporter and a free batch size, without the stack traces it records."""
    shapes = {"x": {0: torch.export.Dim("batch", min=1, max=4096)}}
    program = torch.onnx.export(
        net, (example,), dynamo=True, dynamic_shapes=shapes, verbose=False, **ONNX_NAMES, **settings
    )
    assert program is not None
    model = program.model_proto
    for node in model.graph.node:
        kept = [prop for prop in node.metadata_props if "stack_trace" not in prop.key]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    path.write_bytes(model.SerializeToString(deterministic=True))


WRITERS: dict[str, Writer] = {
    "healthy/state_dict.pt": state_dict,
    "healthy/state_dict_legacy.pth": state_dict_legacy,
    "healthy/training_checkpoint.ckpt": training_checkpoint,
    "healthy/pickled_module.pt": pickled_module,
    "healthy/torchscript_scripted.pt": torchscript_scripted,
    "healthy/torchscript_traced.pt": torchscript_traced,
    "healthy/torchscript_frozen.pt": torchscript_frozen,
    "healthy/exported_program.pt2": exported_program,
    "healthy/exported_program_flat.pt2": exported_program_flat,
    "healthy/model.safetensors": safetensors,
    "healthy/hf_safetensors": hf_safetensors,
    "healthy/hf_bin": hf_bin,
    "healthy/distributed_checkpoint": distributed_checkpoint,
    "healthy/arrays.npz": arrays,
    "healthy/detectron2_style.pkl": detectron2_style,
    "healthy/norms_kept.onnx": norms_kept,
    "healthy/norms_folded.onnx": norms_folded,
}
