"""An error that a model raised as one sentence: class, message, module, and the line of the user's code."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from traceback import walk_tb

import torch

from bnaudit.session import Place, RunError
from bnaudit.user_code import origin

_TORCH = str(Path(torch.__file__).parent)
_IN_SCRIPT = "failed in the TorchScript interpreter"
"""Of a script's errors; those that its own operators raise are plain RuntimeErrors."""
_SCRIPT_LINE = re.compile(r'File "([^"]+)", line (\d+)')
_TRACE_LINE = re.compile(r"^(.+\.py)\((\d+)\): ", re.MULTILINE)
_LONGEST = 300


def run_error(error: BaseException, place: Place | None) -> RunError:
    """The model's error, with the module it came from where that is known."""
    message = _message(error)
    name = type(error).__qualname__
    text = f"the model raised {name}: {message}" if message else f"the model raised {name}"
    module = f"in {place.module or 'the model'}" if place is not None and place.class_name else ""
    line = _line(error)
    return RunError(text, where=", ".join(filter(None, (module, line))))


def _is_of_script(error: BaseException) -> bool:
    return isinstance(error, torch.jit.Error) or _IN_SCRIPT in str(error)


def _line(error: BaseException) -> str:
    if _is_of_script(error):
        return _script_line(str(error))
    frames = [Path(frame.f_code.co_filename) for frame, _ in walk_tb(error.__traceback__)]
    outside = [path for path in frames if not str(path).startswith((_TORCH, str(Path(__file__).parents[1])))]
    return origin(error) if outside else ""


def _of_script(lines: list[str], name: str) -> str:
    """The last line; where a dispatch mode cost the error its message, the code that is marked as guilty."""
    marked = [before for before, line in pairwise(lines) if "<--- HERE" in line]
    if lines[-1] == f"{name}:":
        return f"at {marked[-1]}" if marked else lines[0]
    return lines[-1].removeprefix(f"{name}: ")


def _script_line(text: str) -> str:
    """The innermost line of the user's: a script's errors list it last, a trace's first."""
    traced = [line for line in _TRACE_LINE.findall(text) if not line[0].strip().startswith(_TORCH)]
    lines = traced[:1] or _SCRIPT_LINE.findall(text)[-1:]
    return f"{Path(lines[0][0]).name}:{lines[0][1]}" if lines else ""


def first_line(error: BaseException) -> str:
    """The sentence of an error's message, or its class when it has none."""
    return _message(error) or type(error).__qualname__


def _message(error: BaseException) -> str:
    """The sentence of the message: TorchScript's comes last, a heading is followed by it, else it comes first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return ""
    if _is_of_script(error):
        text = _of_script(lines, type(error).__qualname__)
    elif len(lines) > 1 and lines[0].endswith(":"):
        text = f"{lines[0]} {lines[1]}"
    else:
        text = lines[0]
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
