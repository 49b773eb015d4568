"""ONNX graphs, run by onnxruntime. Their operators cannot reach the machine, so nothing has to be allowed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bnaudit.description import Carrier
from bnaudit.runners import Runner, Subject
from bnaudit.session import Session


def permits(subject: Subject) -> str | None:
    """None for anything but a graph in a file; else "" unless nothing may be run."""
    if subject.description is None or subject.path is None or subject.options.model is not None:
        return None
    carriers = {part.carrier for part in subject.description.parts}
    if carriers != {Carrier.GRAPH}:
        return None
    return "--static was given" if subject.options.static else ""


@contextmanager
def open_session(subject: Subject) -> Iterator[Session]:
    """A session of the graph.

    Raises UnreadableError when its external data is missing or outside its folder, NotPossibleError when onnxruntime
    cannot load it, UsageError for a device or a library of operators that is not there.
    """
    from bnaudit.onnx_session.opening import opened

    assert subject.path is not None and subject.description is not None
    with opened(subject.path, subject.description.parts[0], subject.options) as session:
        yield session


RUNNER = Runner(name="onnxruntime", permits=permits, open=open_session)
