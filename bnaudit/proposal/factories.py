"""Functions and classes in Python files that may build a model, found by parsing them."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

_LARGEST = 1 << 20
"""Bytes of a file that is parsed."""
_NOT_MODELS = ("test_", "conftest", "setup")
_DEEPEST = 20
"""Classes above a class that are followed."""


class Factory(NamedTuple):
    """Something that can be called for a model."""

    path: Path
    name: str
    needs: tuple[str, ...]
    """Parameters without a default."""
    is_class: bool
    attributes: frozenset[str]
    """What the classes that it makes assign to `self`: the first pieces of names of layers."""


def factories(sources: Sequence[Path]) -> list[Factory]:
    """Those in all files. What is no Python, or too large, has none."""
    return [found for path in sources if not path.name.startswith(_NOT_MODELS) for found in _in_file(path)]


def best(found: Sequence[Factory], layers: frozenset[str], beside: Path, most: int = 3) -> list[Factory]:
    """Those that fit layers with these first pieces of names best: by what they assign, then what needs no arguments,
    functions before classes, and the nearest. What assigns none of them is left out.
    """

    def order(factory: Factory) -> tuple[object, ...]:
        shared = len(factory.attributes & layers)
        apart = len(set(factory.path.parent.parts) ^ set(beside.parts))
        return -shared, len(factory.needs), factory.is_class, apart, str(factory.path), factory.name

    return sorted((each for each in found if each.attributes & layers or not layers), key=order)[:most]


def _in_file(path: Path) -> Iterator[Factory]:
    tree = _parsed(path)
    if tree is None:
        return
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    assigned = {name: _assigned(node, classes) for name, node in classes.items() if _is_module(node, classes)}
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name in assigned:
            yield Factory(path, node.name, _needs(_initializer(node)), True, assigned[node.name])
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            made = [assigned[name] for name in _made(node) if name in assigned]
            if made:
                yield Factory(path, node.name, _needs(node), False, frozenset().union(*made))


def _parsed(path: Path) -> ast.Module | None:
    try:
        content = path.read_bytes()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the user's code, about escapes in its texts
            return ast.parse(content) if len(content) <= _LARGEST and b"Module" in content else None
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # it only proposes: a file that does not parse proposes nothing


def _above(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> Iterator[ast.ClassDef]:
    """The class and those of its file that it inherits from."""
    waiting, seen = [node], set[str]()
    while waiting and len(seen) < _DEEPEST:
        each = waiting.pop()
        if each.name not in seen:
            seen.add(each.name)
            yield each
            waiting += [classes[name] for name in map(_last_name, each.bases) if name in classes]


def _is_module(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> bool:
    return any(_last_name(base).endswith("Module") for each in _above(node, classes) for base in each.bases)


def _made(node: ast.FunctionDef) -> Iterator[str]:
    """Names that the function calls or says that it returns."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call):
            yield _last_name(each.func)
    if node.returns is not None:
        for each in ast.walk(node.returns):
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                yield each.value.rpartition(".")[2]
            elif isinstance(each, (ast.Name, ast.Attribute)):
                yield _last_name(each)


def _needs(function: ast.FunctionDef | None) -> tuple[str, ...]:
    if function is None:
        return ()
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    required = positional[: len(positional) - len(given.defaults)]
    required += [name for name, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None]
    return tuple(argument.arg for argument in required if argument.arg != "self")


def _initializer(node: ast.ClassDef) -> ast.FunctionDef | None:
    return next((each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)


def _assigned(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> frozenset[str]:
    found = set()
    for each in (inner for above in _above(node, classes) for inner in ast.walk(above)):
        targets = (
            each.targets if isinstance(each, ast.Assign) else [each.target] if isinstance(each, ast.AnnAssign) else []
        )
        for target in targets:
            if isinstance(target, ast.Attribute) and _last_name(target.value) == "self":
                found.add(target.attr)
    return frozenset(found)


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
