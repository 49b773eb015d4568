"""What the user types about a run, checked and turned into values: durations, sizes, callables, rules with patterns.

Every wrong text raises UsageError with one sentence: what is wrong, in which option, what to write instead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from bnaudit.errors import UsageError
from bnaudit.run_options import RunOptions
from bnaudit.settings import check_selectors
from bnaudit.user_code import is_spec

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(ms|s|m|h|)")
_ARRAY_SUFFIXES = (".npy", ".npz", ".pt", ".pth", ".safetensors")
_LARGEST_SEED = 2**32 - 1
"""What NumPy's and PyTorch's generators both take."""


class RunTexts(NamedTuple):
    """The options of a run as they are typed; the names are those of the command line."""

    inputs: str | None = None
    model: str | None = None
    model_args: str | None = None
    part: str = ""
    as_is: bool = False
    run: bool = False
    trust_pickle: bool = False
    custom_ops: list[str] | None = None
    static: bool = False
    batch_size: int | None = None
    anchors: int = 4
    batch_axis: int | None = None
    dim: list[str] | None = None
    training_batch_size: int | None = None
    budget: str | None = None
    seed: int = 0
    device: str = "cpu"


def run_options(texts: RunTexts) -> RunOptions:
    """The options as values. Raises UsageError for a wrong text, or for options that contradict each other."""
    _check_contradictions(texts)
    return RunOptions(
        static=texts.static,
        run=texts.run,
        trust_pickle=texts.trust_pickle,
        model=callable_text(texts.model, "--model") if texts.model is not None else None,
        model_args=model_arguments(texts.model_args) if texts.model_args is not None else MappingProxyType({}),
        part=texts.part,
        as_is=texts.as_is,
        inputs=inputs_text(texts.inputs) if texts.inputs is not None else None,
        batch_size=_at_least(1, texts.batch_size, "--batch-size"),
        anchors=_at_least(1, texts.anchors, "--anchors") or 1,
        axis=_at_least(0, texts.batch_axis, "--batch-axis"),
        dims=dimensions(texts.dim or ()),
        training_batch_size=_at_least(1, texts.training_batch_size, "--training-batch-size"),
        budget=seconds(texts.budget) if texts.budget is not None else None,
        seed=_seed(texts.seed),
        device=_device(texts.device),
        custom_ops=_libraries(texts.custom_ops or ()),
    )


def seconds(text: str) -> float:
    """`60s`, `2m`, `500ms`, `1.5h`, or a number of seconds."""
    found = _DURATION.fullmatch(text.strip())
    length = float(found[1]) * _SECONDS[found[2]] if found else 0.0
    if length <= 0 or not isfinite(length):
        what = "a budget is a length of time above 0"
        raise UsageError(what, where=f"--budget {text}", remedy="write 60s, 2m, 500ms or a number of seconds")
    return length


def dimensions(assignments: Iterable[str]) -> Mapping[str, int]:
    """Sizes from `name=size` texts; a name may hold any character, `=` too."""
    sizes: dict[str, int] = {}
    for assignment in assignments:
        name, _, size = assignment.rpartition("=")
        where = f"--dim {assignment}"
        if not name or not re.fullmatch("0*[1-9][0-9]{0,9}", size):
            raise UsageError("a dimension needs a name and a whole size", where=where, remedy="write height=224")
        if sizes.setdefault(name, int(size)) != int(size):
            raise UsageError(f"dimension {name} was given two sizes", where=where, remedy="give it once")
    return MappingProxyType(sizes)


def intended(assignments: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """(prefix of rule ids, pattern) from `BN302=prenet.*` texts; the rule alone stands for everywhere, `*`."""
    pairs = []
    for assignment in assignments:
        rule, equals, pattern = assignment.partition("=")
        if equals and not pattern:
            what = f"{assignment!r} says for no layer that it is intended"
            raise UsageError(what, where="--intended", remedy=f"write {rule}='prenet.*', or {rule} alone for all")
        (prefix,) = check_selectors([rule])
        pairs.append((prefix, pattern or "*"))
    return tuple(pairs)


def model_arguments(text: str) -> Mapping[str, object]:
    """Keyword arguments of the factory, from a JSON object."""
    where = f"--model-args {text}"
    remedy = """write a JSON object, '{"width": 64}'"""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError("the arguments of the model are not JSON", where=where, remedy=remedy) from error
    if not isinstance(value, dict):
        raise UsageError("the arguments of the model have no names", where=where, remedy=remedy)
    return MappingProxyType(value)


def callable_text(text: str, option: str) -> str:
    """A text of the form `file.py:callable` or `package.module:callable`, the file being there."""
    if not is_spec(text):
        remedy = "write file.py:callable or package.module:callable"
        raise UsageError("this names no callable", where=f"{option} {text}", remedy=remedy)
    place = text.rpartition(":")[0]
    if place.endswith(".py") and not Path(place).is_file():
        raise UsageError(f"there is no file {place}", where=f"{option} {text}", remedy="check the path")
    return text


def inputs_text(text: str) -> str:
    """A file that is there, or a callable that yields batches."""
    if Path(text).is_file():
        return text
    if text.rpartition(":")[0] and Path(text).suffix.lower() not in _ARRAY_SUFFIXES:
        return callable_text(text, "--inputs")
    remedy = "give a .npy, .npz, .pt or .safetensors file, or a callable that yields batches, file.py:callable"
    raise UsageError("there is no such file of inputs", where=f"--inputs {text}", remedy=remedy)


_ASKS_TO_RUN = ("run", "trust_pickle", "model", "inputs", "custom_ops")
_ABOUT_THE_MODEL = ("model_args", "part", "as_is")


def _check_contradictions(texts: RunTexts) -> None:
    if texts.static:
        for name in _ASKS_TO_RUN:
            if getattr(texts, name):
                what = f"--static runs nothing, and {_flag(name)} asks for a run"
                raise UsageError(what, where="options", remedy="leave out one of the two")
    if texts.model is None:
        for name in _ABOUT_THE_MODEL:
            if getattr(texts, name):
                what = f"{_flag(name)} is about a model that is not given"
                raise UsageError(what, where="options", remedy="give it with --model file.py:callable")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _at_least(smallest: int, value: int | None, option: str) -> int | None:
    if value is not None and value < smallest:
        what = f"this needs a whole number of at least {smallest}"
        raise UsageError(what, where=f"{option} {value}", remedy=f"give {smallest} or more, or leave it out")
    return value


def _seed(value: int) -> int:
    if not 0 <= value <= _LARGEST_SEED:
        what = f"a seed is a whole number from 0 to {_LARGEST_SEED}"
        raise UsageError(what, where=f"--seed {value}", remedy="give another")
    return value


def _device(text: str) -> str:
    if not re.fullmatch(r"[a-z]+(:[0-9]+)?", text):
        raise UsageError("this names no device", where=f"--device {text}", remedy="write cpu, cuda, cuda:1 or mps")
    return text


def _libraries(paths: Iterable[str]) -> tuple[str, ...]:
    for path in paths:
        if not Path(path).is_file():
            what = "there is no such library of custom operators"
            raise UsageError(what, where=f"--custom-ops {path}", remedy="check the path")
    return tuple(paths)
