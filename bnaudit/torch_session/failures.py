"""An error that a model raised as one sentence: class, message, module, and the line of the user's code."""

from __future__ import annotations

import re
from pathlib import Path
from traceback import walk_tb

import torch

from bnaudit.session import Place, RunError
from bnaudit.user_code import origin

_TORCH = str(Path(torch.__file__).parent)
_SCRIPT_LINE = re.compile(r'File "([^"]+)", line (\d+)')
_LONGEST = 300


def run_error(error: BaseException, place: Place | None) -> RunError:
    """The model's error, with the module it came from where that is known."""
    message = _message(error)
    name = type(error).__qualname__
    text = f"the model raised {name}: {message}" if message else f"the model raised {name}"
    module = f"in {place.module or 'the model'}" if place is not None and place.class_name else ""
    line = _line(error)
    return RunError(text, where=", ".join(filter(None, (module, line))))


def _line(error: BaseException) -> str:
    if isinstance(error, torch.jit.Error):
        lines = _SCRIPT_LINE.findall(str(error))
        return f"{Path(lines[-1][0]).name}:{lines[-1][1]}" if lines else ""
    frames = [Path(frame.f_code.co_filename) for frame, _ in walk_tb(error.__traceback__)]
    outside = [path for path in frames if not str(path).startswith((_TORCH, str(Path(__file__).parents[1])))]
    return origin(error) if outside else ""


def first_line(error: BaseException) -> str:
    """The sentence of an error's message, or its class when it has none."""
    return _message(error) or type(error).__qualname__


def _message(error: BaseException) -> str:
    """The sentence of the message: TorchScript's comes last, a heading is followed by it, else it comes first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return ""
    if isinstance(error, torch.jit.Error):
        text = lines[-1]
    elif len(lines) > 1 and lines[0].endswith(":"):
        text = f"{lines[0]} {lines[1]}"
    else:
        text = lines[0]
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
