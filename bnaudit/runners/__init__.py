"""One file per framework that can run models. A plugin is a module with a `RUNNER`:

    RUNNER = Runner(name="onnxruntime", permits=permits, open=open_session)

`permits(subject)` looks at values only: None when another runner's, "" when it will run, else what the user has to
give or allow first (`--run: a TorchScript file is a program that can reach the machine`). `open(subject)` is a context
manager of a Session; leaving it restores the user's model bit for bit (modes, buffers, parameters, requires_grad,
grad, hooks), and random generators and thread settings, also after an exception. It raises UnreadableError when the
model cannot be built or loaded, NotPossibleError when it can but cannot be run.

Only here, in `torch_session` and in `onnx_session` are frameworks imported, inside functions or in modules that nothing
else imports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from bnaudit.description import Description
from bnaudit.plugins import load, names
from bnaudit.run_options import RunOptions
from bnaudit.session import Session


class Subject(NamedTuple):
    """What is to be run: an artifact, a model of the user's, or an artifact to be loaded into one."""

    path: Path | None
    description: Description | None
    """What a format read from the path; None for a model without a file."""
    options: RunOptions


class Runner(NamedTuple):
    """The contract of a runner plugin."""

    name: str
    permits: Callable[[Subject], str | None]
    open: Callable[[Subject], AbstractContextManager[Session]]


def runners() -> Iterator[Runner]:
    """All runners, by file name."""
    for name in names(__name__):
        plugin: Runner = load(__name__, name).RUNNER
        yield plugin
