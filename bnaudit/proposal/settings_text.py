"""The text of a first settings file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from bnaudit.description import Carrier, Description, GraphInput, NormKind
from bnaudit.layer_names import strip_wrappers
from bnaudit.policy.keys import KEYS
from bnaudit.policy.place import basic_string, quoted
from bnaudit.printable import printable
from bnaudit.proposal.artifact_groups import Group, below, carriers, kinds
from bnaudit.proposal.factories import Factory, best
from bnaudit.proposal.folder_search import Findings
from bnaudit.terminal.amounts import plural

_TOP = ("require", "max-gap", "select", "ignore", "severity", "limits", "intended", "baseline")
"""Keys that are explained and left to the user."""
_NAMED = 3
"""Files that a comment names."""
_MOST_PATHS = 12


def settings_text(found: Findings, groups: Sequence[Group], factories: Sequence[Factory], root: Path) -> str:
    """A settings file in `root` for what was found; everything that is a guess is a comment."""
    lines = [*_head(found, root), *_policy()]
    for group in groups:
        lines += ["", *_section(group, found, factories, root)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _audited_paths(found: Findings, root: Path) -> tuple[str, ...]:
    """The folders that hold the models, so that new ones are met too; patterns of those in the searched folder."""
    paths: dict[str, None] = {}
    for model in found.models:
        at_the_top = model.path.parent.absolute() == found.folder.absolute()
        paths[_of_its_kind(model.path, root) if at_the_top else below(model.path.parent, root)] = None
    folders = [path for path in paths if not any(path.startswith(f"{other}/") for other in paths)]
    return tuple(folders if len(folders) <= _MOST_PATHS else dict.fromkeys(path.partition("/")[0] for path in folders))


def _of_its_kind(path: Path, root: Path) -> str:
    return below(path if path.is_dir() or not path.suffix else path.with_name(f"*{path.suffix}"), root)


def _head(found: Findings, root: Path) -> Iterator[str]:
    yield "# What `bnaudit gate` demands of the models here, written by `bnaudit init`."
    yield "# `bnaudit gate --show-settings` lists every setting, `bnaudit rules` every rule."
    yield ""
    paths = _audited_paths(found, root)
    yield f"# {KEYS['paths'].what}"
    if paths:
        yield f"paths = [{', '.join(map(basic_string, paths))}]"
    else:
        yield f"# No model was found. {KEYS['paths'].example}"
    yield from _left_out(found, root)


def _left_out(found: Findings, root: Path) -> Iterator[str]:
    if found.refused:
        yield ""
        yield "# These look like models and cannot be audited; the gate does not pass while it meets them:"
        yield from (f"#   {_comment(below(path, root))}: {_comment(why)}" for path, why in found.refused[:10])
        more = f"  # and {len(found.refused) - 10} more" if len(found.refused) > 10 else ""
        names = ", ".join(basic_string(below(each.path, root)) for each in found.refused[:10])
        yield f"# exclude = [{names}]{more}"
    if found.unread:
        first = _comment(below(found.unread[0], root))
        yield f"# Not looked into: {plural(len(found.unread), 'more file')}, e.g. {first}"
    if not found.complete:
        yield "# This folder is too large to look through; there may be more models."


def _policy() -> Iterator[str]:
    yield ""
    yield f"# {KEYS['fail-on'].what}"
    yield KEYS["fail-on"].example
    for name in _TOP:
        yield ""
        yield f"# {KEYS[name].what}"
        yield f"# {KEYS[name].example}"
    yield ""
    yield f"# {KEYS['accept'].what}"
    yield "# [[accept]]"
    yield '# rule = "BN105"'
    yield '# layer = "head.*"'
    yield '# reason = "adapted for three steps, ticket 12"'
    yield "# until = 2027-01-31"


def _section(group: Group, found: Findings, factories: Sequence[Factory], root: Path) -> Iterator[str]:
    names = [below(each.path, root) for each in group.models]
    if len(names) > 1:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"# {len(names)} files: {', '.join(map(_comment, names[:_NAMED]))}{more}"
    yield f"# {_about(group.first)}"
    yield f"[files.{quoted(group.pattern)}]"
    yield from _needed(group, factories, root)
    yield from _inputs(group.first, found, root)


def _about(description: Description) -> str:
    counted = [_counted(kind, number) for kind, number in kinds(description).items()]
    told = [each.value for each in carriers(description) if each in (Carrier.STATE_DICT, Carrier.MODULE)]
    return _comment(f"{', '.join([description.artifact.format, *told])}: {', '.join(counted) or 'no norm layers'}")


def _counted(kind: str, number: int) -> str:
    if kind == NormKind.UNKNOWN.value:
        return f"{plural(number, 'norm')} of unknown kind"
    return plural(number, f"{kind} norm")


def _needed(group: Group, factories: Sequence[Factory], root: Path) -> Iterator[str]:
    held = carriers(group.first)
    if Carrier.STATE_DICT in held or not held:
        yield "# It holds no code: most verdicts need the model that it is loaded into, and are required then."
        yield from _models(group, factories, root)
    elif Carrier.MODULE in held:
        yield "# Unpickling it executes what the file says: give the model's code, or trust the file."
        yield from _models(group, factories, root)
        yield f"# {KEYS['trust-pickle'].example}"
    elif Carrier.GRAPH in held:
        yield "# It is run, on seeded noise unless inputs are given. To require what the run shows:"
        yield '# require = ["buffers", "eval-mode", "neighbours"]'
    else:
        yield "# It is a program and can reach your files; it is run when you say so:"
        yield f"# {KEYS['run'].example}"


def _models(group: Group, factories: Sequence[Factory], root: Path) -> Iterator[str]:
    layers = frozenset(strip_wrappers(layer.name).partition(".")[0] for _, layer in group.first.layers)
    proposed = best(factories, layers, group.models[0].path.parent)
    for factory in proposed:
        spec = basic_string(f"{below(factory.path, root)}:{factory.name}")
        needs = f"  # it needs {', '.join(factory.needs)}: {KEYS['model-args'].name}" if factory.needs else ""
        yield f"# {KEYS['model'].name} = {spec}{needs}"
    if not proposed:
        yield f"# {KEYS['model'].example}"


def _inputs(description: Description, found: Findings, root: Path) -> Iterator[str]:
    near = sorted(found.arrays, key=lambda path: (path.suffix != ".npz", len(path.parts), path))[:1]
    for path in near:
        yield f"# {KEYS['inputs'].name} = {basic_string(below(path, root))}"
    if not near:
        yield f"# {KEYS['inputs'].example}"
    sizes = dict.fromkeys(name for part in description.parts for each in part.inputs for name in _free(each))
    if sizes:
        yield f"# dim = {{{', '.join(f'{quoted(name)} = 224' for name in sizes)}}}"


def _free(given: GraphInput) -> Iterator[str]:
    """Named dimensions, but for the first, which counts samples."""
    yield from (size for size in (given.shape or ())[1:] if isinstance(size, str) and size)


def _comment(text: str) -> str:
    return printable(" ".join(text.split()))
