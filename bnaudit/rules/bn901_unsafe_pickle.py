"""Loading this pickle would do more than build a model.

## What it finds

A pickle is a program: it names functions and classes, and `pickle.load` or `torch.load(weights_only=False)` imports
and calls them. This rule lists the names in the file by what they do.

- **Error**: a call that runs programs or code, imports, loads another pickle, touches files, the network, native code
  or the state of the process, or fetches attributes of something that was not built in this pickle.
- **Warning**: such a name that is only mentioned and not called; `reduce_graph_module`, which compiles source text
  stored in the file (every pickled torch.fx GraphModule has it).
- **Note**: the classes that have to be importable to load the file, in one line.

bnaudit itself reads the file without importing or calling any of them.

## Why it matters

Model files are passed around like data and run like programs. One instruction among thousands is enough, and the
model loads as usual afterwards.

## Example

    class Payload:
        def __reduce__(self):
            return os.system, ("touch /tmp/owned",)

    torch.save({"state_dict": model.state_dict(), "extra": Payload()}, "model.pt")

is reported as *loading it calls posix.system('touch /tmp/owned'), which runs a program*.

## How to fix

Do not load a file with an error. `torch.load("model.pt", weights_only=True)` refuses it, too. Get the weights from
their author as safetensors or as a plain state dict. To need no classes at all, save a state dict:

    torch.save(model.state_dict(), "model.pt")

## Limits

- No list of dangerous names is complete: a function of any installed package can have an effect. What is not known is
  in the note; read it when you do not trust the source. The absence of an error is no proof of safety.
- A class that looks harmless runs its own `__setstate__` or `__init__`, and a pickle can overwrite attributes of an
  imported class without a call: only the names that it uses for that are seen.
- Names are compared in full, also when they are reached through another module (`torch.serialization.os.system`).
  A module under an alias of its own (`np`) is only shown in the note.
- Pickled bound methods of objects in the same file use `getattr` and are harmless; built-in functions (`torch.relu`)
  fetch themselves from their class that way, a note. Another attribute of an imported class is a warning (the first
  releases of Python 3.11 wrote enum members like that).
- Files that a pickle embeds (`torch.storage._load_from_bytes`) are read as well. safetensors and ONNX files hold no
  pickle, and the rule is silent there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bnaudit.description import PickleImport
from bnaudit.pickle_names import (
    CALLERS,
    METHOD_HOLDERS,
    MUTABLE_STATE,
    acts_on_import,
    effect_of,
    is_harmless,
    is_introspection,
)
from bnaudit.results import Confidence, Hit, Severity
from bnaudit.rules import Case, rule

_GETATTR = ("builtins.getattr", "__builtin__.getattr")
_COMPILES_SOURCE = (
    "torch.fx.graph_module.reduce_graph_module",
    "torch.fx.graph_module.reduce_deploy_graph_module",
    "torch.fx.graph_module.reduce_package_graph_module",
    "torch.fx._lazy_graph_module.reduce_graph_module",
)
_NAMES_SHOWN = 8
_REFUSE = "do not load it; torch.load(weights_only=True) refuses it, and safetensors cannot hold such a thing"
_TRUST = "load it only from a source you trust, or ask for a state dict"


@rule(id="BN901", severity=Severity.ERROR)
def unsafe_pickle(case: Case) -> Iterator[Hit]:
    """One hit per name with an effect, and one note with the names that are merely needed."""
    imports = case.subject.imports
    needed: list[str] = []
    for entry in imports:
        hit = _judge(entry, imports)
        if hit is not None:
            yield hit
        elif not is_harmless(entry.name) and not entry.name.startswith("__torch__."):
            needed.append(entry.name)
    if needed:
        yield _needed(needed)


def _judge(entry: PickleImport, imports: Sequence[PickleImport]) -> Hit | None:
    if entry.name in _GETATTR:
        return _getattr(entry)
    effect = effect_of(entry.name)
    if effect is not None:
        return _effect(entry, effect, imports)
    if entry.called and entry.name in _COMPILES_SOURCE:
        return _warning(entry, f"loading it calls {entry.name}, which compiles source text stored in the file")
    return None


def _effect(entry: PickleImport, effect: str, imports: Sequence[PickleImport]) -> Hit:
    if entry.called:
        return _error(entry, f"loading it calls {_call(entry)}, which {effect}")
    if entry.name in MUTABLE_STATE:
        return _error(entry, f"it reaches {entry.name}, which loading it can change")
    if acts_on_import(entry.name):
        return _error(entry, f"importing {entry.name} {effect}")
    if _handed_on(entry, imports):
        return _error(entry, f"it hands {entry.name}, which {effect}, to something that calls it")
    return _warning(entry, f"it names {entry.name}, which {effect}, without a call that shows", Confidence.MEDIUM)


def _handed_on(entry: PickleImport, imports: Sequence[PickleImport]) -> bool:
    callers = (other for other in imports if other.called and other is not entry)
    return any(other.name in CALLERS or entry.name in " ".join(other.arguments) for other in callers)


def _getattr(entry: PickleImport) -> Hit | None:
    target, attribute = (*entry.arguments, "", "")[:2]
    attribute = attribute.strip("'")
    effect = effect_of(f"{target}.{attribute}") if target and attribute else None
    if effect is not None or is_introspection(attribute):
        return _error(entry, f"loading it calls {_call(entry)}, which {effect or 'reaches attributes by name'}")
    if not entry.foreign_target:
        return None
    message = f"loading it calls {_call(entry)}: an attribute of something that is not in the pickle"
    return _note(message, entry.name) if target in METHOD_HOLDERS else _warning(entry, message)


def _call(entry: PickleImport) -> str:
    return f"{entry.name}({', '.join(entry.arguments)})"


def _error(entry: PickleImport, message: str) -> Hit:
    return Hit(message=message, advice=_REFUSE, value=entry.name, severity=Severity.ERROR)


def _warning(entry: PickleImport, message: str, confidence: Confidence = Confidence.HIGH) -> Hit:
    return Hit(message=message, advice=_TRUST, value=entry.name, severity=Severity.WARNING, confidence=confidence)


def _needed(names: Sequence[str]) -> Hit:
    more = len(names) - _NAMES_SHOWN
    shown = ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return _note(f"needs these classes to load: {shown}", len(names))


def _note(message: str, value: str | int) -> Hit:
    advice = "load it where these can be imported, or save a state dict, which needs none"
    return Hit(message=message, advice=advice, value=value, severity=Severity.NOTE)
