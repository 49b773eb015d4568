"""PyTorch: live modules and factories, checkpoints in them, pickled modules, TorchScript, exported programs."""

from __future__ import annotations

from contextlib import AbstractContextManager

from bnaudit.description import Carrier
from bnaudit.runners import Runner, Subject
from bnaudit.session import Session

_NEEDS = {
    Carrier.STATE_DICT: "--model file.py:callable: a state dict holds no code, and is loaded into the model it is of",
    Carrier.SCRIPT: "--run: a TorchScript file is a program that can reach the machine",
    Carrier.PROGRAM: "--run: an exported program can reach the machine",
    Carrier.MODULE: "--trust-pickle: unpickling a module executes whatever the file says",
}


def permits(subject: Subject) -> str | None:
    """ "" when it will run, else what to give or allow first; None for ONNX graphs and for nothing at all."""
    options, description = subject.options, subject.description
    carriers = {part.carrier for part in description.parts} if description is not None else set()
    if Carrier.GRAPH in carriers or (not carriers and options.model is None):
        return None
    if options.static:
        return "--static was given"
    allowed = {
        Carrier.STATE_DICT: options.model is not None,
        Carrier.SCRIPT: options.run,
        Carrier.PROGRAM: options.run,
        Carrier.MODULE: options.trust_pickle,
    }
    if options.part and description is not None:
        carriers = {part.carrier for part in description.parts if part.name == options.part} or carriers
    if not carriers or any(allowed[carrier] for carrier in carriers):
        return ""
    code = carriers - {Carrier.STATE_DICT}
    return _NEEDS[next(iter(code or carriers))]


def open_session(subject: Subject) -> AbstractContextManager[Session]:
    """See `bnaudit.runners`."""
    from bnaudit.torch_session.opening import opened

    return opened(subject.path, subject.description, subject.options)


RUNNER = Runner(name="pytorch", permits=permits, open=open_session)
