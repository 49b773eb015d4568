"""torch.export programs: a graph with its weights, its constraints and the inputs it was exported with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch.utils import _pytree as pytree

from bnaudit.caps import Caps
from bnaudit.description import Carrier, Part
from bnaudit.errors import UnreadableError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.exported.archive import ExportedArchive
from bnaudit.reading.exported.program import describe_program
from bnaudit.reading.zip_directory import ZipDirectory
from bnaudit.session import Batch
from bnaudit.torch_session.failures import first_line
from bnaudit.torch_session.modes import fixed_modes
from bnaudit.torch_session.session import Prepared
from bnaudit.torch_session.signatures import guesses
from bnaudit.torch_session.tensors import leaves, mapped, to_array


def load_program(path: Path) -> torch.export.ExportedProgram:
    """The program of a .pt2 file. Raises UnreadableError when torch refuses it."""
    try:
        return torch.export.load(path)
    except Exception as error:
        raise UnreadableError(f"torch.export.load refused the program: {first_line(error)}", where=path.name) from error


def prepared_program(program: torch.export.ExportedProgram, part: Part | None, device: str) -> Prepared:
    """The program as a model. Its modes are in the graph."""
    model = program.module()
    if device != "cpu":
        model.to(device)
    part = part if part is not None else _saved_part(program)
    shape = part.inputs[0].shape if part.inputs else None
    first = shape[0] if shape else None
    return Prepared(
        model=model,
        carrier=Carrier.PROGRAM,
        part=part,
        modes=fixed_modes(model),
        fixed=True,
        signatures=(part.inputs,) if part.inputs else (),
        sample=_sample(program),
        dims=_dims(program),
        fixed_batch=first if isinstance(first, int) else None,
        own=False,
        device=device,
        arranged=_Arranged(program),
    )


def is_exported(model: torch.nn.Module) -> bool:
    """Whether it is what `ExportedProgram.module()` gives: a graph that refuses train() and eval()."""
    return isinstance(model, torch.fx.GraphModule) and {"train", "eval"} <= vars(model).keys()


def prepared_graph(model: torch.nn.Module, part: Part, *, own: bool) -> Prepared:
    """The module of an exported program; without the program, what it takes is guessed."""
    return Prepared(
        model=model,
        carrier=Carrier.PROGRAM,
        part=part,
        modes=fixed_modes(model),
        fixed=True,
        signatures=guesses(model),
        own=own,
    )


def _saved_part(program: torch.export.ExportedProgram) -> Part:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "program.pt2"
        torch.export.save(program, path)
        with ByteSource.open(path) as source:
            archive = ExportedArchive(source)
            members = [name for name in ZipDirectory(source).names if "models/" in name and name.endswith(".json")]
            entry = next(iter(archive.programs(members)))
            return describe_program("", entry.program, entry.refs, Caps())[0]


def _dims(program: torch.export.ExportedProgram) -> Mapping[str, tuple[int, int | None]]:
    """Symbol → smallest and largest size; no largest where the range is open."""
    found = {}
    for symbol, allowed in program.range_constraints.items():
        largest = str(allowed.upper)
        found[str(symbol)] = (int(allowed.lower), int(largest) if largest.isdigit() else None)
    return found


def _sample(program: torch.export.ExportedProgram) -> Batch | None:
    if program.example_inputs is None:
        return None
    args, kwargs = program.example_inputs
    size = next((tensor.shape[0] for _, tensor in leaves((args, kwargs)) if tensor.ndim), None)
    if not size:
        return None
    arrays: Any = mapped(tuple(args), _array)
    named: Any = mapped(dict(kwargs), _array)
    anchors = tuple(sorted({0, size // 2, size - 1}))
    return Batch(args=arrays, kwargs=named, size=size, anchors=anchors)


def _array(value: object) -> object:
    return to_array(value) if isinstance(value, torch.Tensor) else value


class _Arranged:
    """Puts inputs that come in the order of the graph's into the tree that the program was exported with."""

    def __init__(self, program: torch.export.ExportedProgram) -> None:
        self._spec = program.call_spec.in_spec

    def __call__(
        self, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if self._spec is None or pytree.tree_structure((tuple(args), dict(kwargs))) == self._spec:
            return tuple(args), dict(kwargs)
        flat = pytree.tree_leaves((tuple(args), dict(kwargs)))
        if len(flat) != self._spec.num_leaves:
            return tuple(args), dict(kwargs)
        arranged: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_unflatten(flat, self._spec)
        return arranged
