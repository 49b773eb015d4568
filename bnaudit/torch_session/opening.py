"""From an artifact, the user's model, or both to a session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._subclasses import FakeTensor

from bnaudit.description import Carrier, Description, Part
from bnaudit.errors import UnreadableError, UsageError
from bnaudit.records import replace
from bnaudit.run_options import RunOptions
from bnaudit.session import Mode, NotPossibleError
from bnaudit.torch_session.checkpoint_loading import load_checkpoint
from bnaudit.torch_session.factories import build_model, model_name
from bnaudit.torch_session.failures import first_line
from bnaudit.torch_session.live_layers import live_part
from bnaudit.torch_session.modes import fixed_modes, flags, kept_modes, overrides_modes, with_flags
from bnaudit.torch_session.pickled import load_module
from bnaudit.torch_session.programs import is_exported, load_program, prepared_graph, prepared_program
from bnaudit.torch_session.script_attributes import is_script
from bnaudit.torch_session.session import Prepared, TorchSession
from bnaudit.torch_session.signatures import guesses, script_guesses
from bnaudit.torch_session.state import State
from bnaudit.torch_session.surroundings import kept_surroundings, quiet, without_collection
from bnaudit.torch_session.wrappers import unwrapped
from bnaudit.user_code import raised


@contextmanager
def opened(path: Path | None, description: Description | None, options: RunOptions) -> Iterator[TorchSession]:
    """The session; leaving restores the model, random generators, settings and `sys.path`.

    Raises UsageError and UnreadableError when the model cannot be built or loaded.
    """
    with kept_surroundings():
        given = options.model if isinstance(options.model, nn.Module) else None
        before = State(given) if given is not None else None
        session = None
        try:
            with quiet(), without_collection():
                prepared = _prepared(path, description, options)
                as_given = prepared.model is given and prepared.loaded is None
                session = TorchSession(prepared, base=before if as_given else None)
            yield session
        finally:
            if session is not None:
                session.close()
            if before is not None and (session is None or not session.began_with(before)):
                before.restore()


def _prepared(path: Path | None, description: Description | None, options: RunOptions) -> Prepared:
    part = chosen_part(description, options)
    if path is not None and part is not None and part.carrier is Carrier.PROGRAM:
        return prepared_program(load_program(path), part, options.device)
    if path is not None and part is not None and part.carrier is Carrier.SCRIPT:
        return _script(_loaded_script(path, options.device), part, options, own=False)
    if path is not None and part is not None and part.carrier is Carrier.MODULE and options.model is None:
        return _module(load_module(path, part.name, options.device), options, part.name, judged_as_saved=True)
    if isinstance(options.model, torch.export.ExportedProgram):
        return prepared_program(options.model, None, options.device)
    model = build_model(options.model, options.model_args)
    if path is not None and description is not None:
        return _checkpoint(model, path, description, options)
    live = isinstance(options.model, nn.Module)
    if is_exported(model):
        return prepared_graph(model, live_part(model), own=live)
    if is_script(model):
        return _script(model, live_part(model), options, own=live)
    return _module(model, options, "", judged_as_saved=live, own=live)


def chosen_part(description: Description | None, options: RunOptions) -> Part | None:
    """The part that will run by itself: the named one, else the first that has code, else the first.

    Raises UnreadableError when no part has the name.
    """
    if description is None or not description.parts:
        return None
    if options.part:
        named = [part for part in description.parts if part.name == options.part]
        if not named:
            known = ", ".join(part.name for part in description.parts[:8] if part.name)
            remedy = f"give one of {known}" if known else "leave it out, the file has one part"
            file = Path(description.artifact.path).name
            raise UnreadableError(f"{file} has no part {options.part!r}", where="--part", remedy=remedy)
        return named[0]
    runs = [part for part in description.parts if part.carrier is not Carrier.STATE_DICT]
    return (runs or list(description.parts))[0]


def _loaded_script(path: Path, device: str) -> nn.Module:
    try:
        loaded: nn.Module = torch.jit.load(path, map_location=device)  # type: ignore[no-untyped-call]
        return loaded
    except Exception as error:
        raise UnreadableError(f"torch.jit.load refused {path.name}: {first_line(error)}") from error


def _module(model: nn.Module, options: RunOptions, name: str, *, judged_as_saved: bool, own: bool = False) -> Prepared:
    """A module in Python. A factory's is described as eval() leaves it: nobody said that it is meant to train."""
    _check_values(model)
    device = _placed(model, options)
    saved = live_part(model, name)
    flags_only = not overrides_modes(model)
    evaluated = saved
    if not options.as_is:
        evaluated = _flags_after_eval(model, saved) if flags_only else _after_eval(model, name)
    return Prepared(
        model=model,
        carrier=Carrier.MODULE,
        part=saved if judged_as_saved or options.as_is else evaluated,
        modes=_modes(saved, evaluated, as_saved=judged_as_saved and not options.as_is),
        signatures=guesses(model),
        as_is=options.as_is,
        own=own,
        device=device,
        describe=lambda trained: with_flags(trained, saved) if flags_only else live_part(trained, name),
    )


def _script(model: nn.Module, part: Part, options: RunOptions, *, own: bool) -> Prepared:
    """TorchScript obeys eval() when it was scripted; a trace has its modes in its code, and a frozen one has none."""
    device = _placed(model, options)
    inner: Any = model._c
    obeys = part.traced is not True and bool(inner.hasattr("training"))
    saved = with_flags(model, part) if obeys else part
    evaluated = _flags_after_eval(model, part) if obeys else part
    return Prepared(
        model=model,
        carrier=Carrier.SCRIPT,
        part=part,
        modes=_modes(saved, evaluated, as_saved=not options.as_is) if obeys else fixed_modes(model),
        fixed=not obeys,
        signatures=script_guesses(model, part),
        as_is=options.as_is,
        own=own,
        device=device,
        describe=(lambda trained: with_flags(trained, part)) if obeys else None,
    )


def _checkpoint(model: nn.Module, path: Path, description: Description, options: RunOptions) -> Prepared:
    """A checkpoint in the user's model: the norm layers are the model's, what is stored of them is the file's."""
    fitted = load_checkpoint(
        unwrapped(model), path, description, options.part, model_name(options.model), trusted=options.trust_pickle
    )
    prepared = _module(model, options, fitted.part, judged_as_saved=False)

    def described(current: nn.Module) -> Part:
        return fitted.with_stored(live_part(current, fitted.part), strip=model is not unwrapped(model))

    return replace(
        prepared,
        part=fitted.with_stored(prepared.part, strip=model is not unwrapped(model)),
        loaded=fitted.loaded,
        describe=described,
    )


def _check_values(model: nn.Module) -> None:
    """Raise NotPossibleError for a model without values."""
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if nn.parameter.is_lazy(tensor):
            what = f"{name} gets its size and values in the first forward"
            raise NotPossibleError(what, remedy="run the model once before it is audited")
        if isinstance(tensor, FakeTensor):
            what = f"{name} has no values: it is a FakeTensor"
            raise NotPossibleError(what, remedy="build the model outside of FakeTensorMode")
        if tensor.is_meta:
            what = f"{name} has no values: it is on the meta device"
            raise NotPossibleError(what, remedy="give a checkpoint, or a model with values")


def _placed(model: nn.Module, options: RunOptions) -> str:
    """Move the model to the device that was asked for; a live one on another than the CPU stays unless asked."""
    first = next(model.parameters(), None)
    now = str(first.device) if first is not None else "cpu"
    if options.device in ("cpu", now):
        return now
    if options.device.partition(":")[0] == "meta":
        raise UsageError("--device meta computes no values", remedy="give cpu, cuda or mps")
    try:
        model.to(options.device)
    except Exception as error:
        raise UsageError(f"--device {options.device} cannot be used: {first_line(error)}") from error
    return options.device


def _after_eval(model: nn.Module, name: str) -> Part:
    with kept_modes(model):
        try:
            model.eval()
        except Exception as error:
            raise raised("calling eval() of the model", error) from error
        return live_part(model, name)


def _flags_after_eval(model: nn.Module, part: Part) -> Part:
    with kept_modes(model):
        try:
            model.eval()
        except Exception as error:
            raise raised("calling eval() of the model", error) from error
        return with_flags(model, part)


def _modes(saved: Part, evaluated: Part, *, as_saved: bool) -> frozenset[Mode]:
    """AS_SAVED only where a layer that depends on the mode is in another than eval() gives."""
    found = {Mode.INFERENCE, Mode.TRAINING_NORMS}
    if as_saved and flags(saved) != flags(evaluated):
        found.add(Mode.AS_SAVED)
    return frozenset(found)


def model_of(path: Path | None, description: Description | None, options: RunOptions) -> nn.Module:
    """The model that a session of these would run, with the artifact's weights in it.

    Raises UsageError and UnreadableError when it cannot be built or loaded.
    """
    return _prepared(path, description, options).model
