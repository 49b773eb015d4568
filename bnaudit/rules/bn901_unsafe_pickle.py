"""Loading this pickle would do more than build a model.

## What it finds

A pickle is a program: it names functions and classes, and `pickle.load` or `torch.load(weights_only=False)` imports
and calls them. This rule lists the names in the file by what they do.

- **Error**: a call that runs programs or code, imports, loads another pickle, touches files, the network, native code
  or the state of the process; a change to something that was not built in this pickle (`os.environ`, an imported
  class), for which no call is needed; `getattr` that leads to one of these, to a special attribute (`__globals__`), or
  to one whose name the pickle computes.
- **Warning**: such a name that is only mentioned and not called; another attribute of something that was not built in
  this pickle; a called method of an object in it; `reduce_graph_module`, which compiles source text stored in the file
  (every pickled torch.fx GraphModule has it).
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
- A class that looks harmless runs its own `__setstate__` or `__init__`, and what a function returns is not known: a
  pickle that changes such an object is not told from one that fills an object of its own.
- Names are compared in full, also when they are reached through another module (`torch.serialization.os.system`) or
  fetched with getattr, one attribute after the other, and under the names of Python 2, which pickles below protocol 3
  hold (`commands.Popen` is subprocess.Popen). A module under an alias of its own (`np`) is only shown in the note.
- Pickled bound methods of objects in the same file use `getattr` and are harmless until the pickle calls them;
  built-in functions (`torch.relu`) fetch themselves from their class that way and are in the note. Any other attribute
  of an imported class is a warning at least. Nested classes (`Net.Config`, protocol 2) and enum members from Python
  3.11.0 to 3.11.3 are written like that, so it is no error unless the name is a special one (`__globals__`), is
  computed by the pickle, or has a known effect.
- Files that a pickle embeds (`torch.storage._load_from_bytes`) are read as well. safetensors and ONNX files hold no
  pickle, and the rule is silent there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bnaudit.description import PickleImport
from bnaudit.pickle_names import CALLERS, METHOD_HOLDERS, MUTABLE_STATE, acts_on_import, effect_of, is_harmless
from bnaudit.results import Confidence, Hit, Severity
from bnaudit.rules import Case, rule

_GETATTR = ("builtins.getattr", "__builtin__.getattr")
_COMPUTED = "?"
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
        elif _is_needed(entry):
            needed.append(entry.name)
    if needed:
        yield _needed(needed)


def _judge(entry: PickleImport, imports: Sequence[PickleImport]) -> Hit | None:
    effect = effect_of(entry.name)
    if effect is not None and entry.called:
        return _error(entry, f"loading it calls {_call(entry)}, which {effect}")
    if entry.modified:
        return _error(entry, f"loading it changes {entry.name}, which is not part of the file")
    if effect is not None:
        return _not_called(entry, effect, imports)
    if entry.fetched:
        return _fetched(entry)
    if entry.handed_on and entry.name in _GETATTR:
        return _error(entry, f"it hands {entry.name}, which reaches attributes by name, to something that calls it")
    if entry.called and entry.name in _COMPILES_SOURCE:
        return _warning(entry, f"loading it calls {entry.name}, which compiles source text stored in the file")
    return None


def _not_called(entry: PickleImport, effect: str, imports: Sequence[PickleImport]) -> Hit:
    """A name with an effect that is reached and that nothing in the pickle calls directly."""
    if entry.name in MUTABLE_STATE:
        return _error(entry, f"it reaches {entry.name}, which loading it can change")
    if acts_on_import(entry.name):
        return _error(entry, f"importing {entry.name} {effect}")
    if entry.fetched and entry.foreign_target:
        return _error(entry, f"loading it fetches {entry.name}, which {effect}")
    if _handed_on(entry, imports):
        return _error(entry, f"it hands {entry.name}, which {effect}, to something that calls it")
    return _warning(entry, f"it names {entry.name}, which {effect}, without a call that shows", Confidence.MEDIUM)


def _handed_on(entry: PickleImport, imports: Sequence[PickleImport]) -> bool:
    callers = (other for other in imports if other.called)
    return entry.handed_on or any(other.name in CALLERS or entry.name in " ".join(other.arguments) for other in callers)


def _fetched(entry: PickleImport) -> Hit | None:
    """An attribute without a known effect: of something outside the pickle, or of an object built in it."""
    owner, _, attribute = entry.name.rpartition(".")
    if attribute == _COMPUTED:
        return _error(entry, f"loading it fetches an attribute of {owner} whose name it computes")
    if entry.foreign_target:
        return _fetched_outside(entry, owner, attribute)
    if entry.called and owner not in METHOD_HOLDERS:
        return _warning(entry, f"loading it calls {entry.name}, a method of an object in the file")
    return None


def _fetched_outside(entry: PickleImport, owner: str, attribute: str) -> Hit | None:
    message = f"loading it fetches {entry.name}: an attribute of something that is not in the pickle"
    if attribute.startswith("__"):
        return _error(entry, message)
    return None if is_harmless(entry.name) or owner in METHOD_HOLDERS else _warning(entry, message)


def _is_needed(entry: PickleImport) -> bool:
    """Whether it has to be there to load the file, and is not always there."""
    of_the_file = entry.fetched and not entry.foreign_target
    return not of_the_file and not is_harmless(entry.name) and not entry.name.startswith("__torch__.")


def _call(entry: PickleImport) -> str:
    return f"{entry.name}({', '.join(entry.arguments)})"


def _error(entry: PickleImport, message: str) -> Hit:
    return Hit(message=message, advice=_REFUSE, value=entry.name, severity=Severity.ERROR)


def _warning(entry: PickleImport, message: str, confidence: Confidence = Confidence.HIGH) -> Hit:
    return Hit(message=message, advice=_TRUST, value=entry.name, severity=Severity.WARNING, confidence=confidence)


def _needed(names: Sequence[str]) -> Hit:
    more = len(names) - _NAMES_SHOWN
    shown = ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
    advice = "load it where these can be imported, or save a state dict, which needs none"
    message = f"needs these classes to load: {shown}"
    return Hit(message=message, advice=advice, value=len(names), severity=Severity.NOTE)
