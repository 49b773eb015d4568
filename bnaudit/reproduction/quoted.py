"""Names and paths of the user's in a script: always as literals, whatever is in them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from bnaudit.errors import UsageError
from bnaudit.feeds.pools import Pool
from bnaudit.feeds.trees import leaves
from bnaudit.printable import printable

_PLAIN = (str, int, float, bool, type(None))


def literal(value: object) -> str:
    """A Python literal, ASCII alone, of text, numbers, and lists and dicts of them. Raises UsageError for others."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(map(literal, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner},)" if len(value) == 1 else f"({inner})"
    if not isinstance(value, _PLAIN):
        what = f"an argument of class {type(value).__name__} cannot be written into a script"
        raise UsageError(what, remedy="give inputs of arrays, numbers and text")
    if isinstance(value, float) and not np.isfinite(value):
        return f"float({str(value)!r})"
    return quoted(value) if isinstance(value, str) else repr(value)


def quoted(text: str) -> str:
    """A literal of text, in double quotes where nothing in it has to be escaped."""
    return f'"{text}"' if text.isascii() and text.isprintable() and not set(text) & set('\\"') else ascii(text)


def prose(text: str) -> str:
    """Text for a docstring or a comment: on one line, nothing in it ends the docstring or escapes."""
    shown = printable(" ".join(text.split()))
    return shown.replace("\\", "\\\\").replace('"""', "'''").replace('"', "'")


def place(path: Path, folder: Path) -> str:
    """An expression for the path, from the script's own folder where that is on the same drive."""
    absolute = path.absolute()
    try:
        paths = os.path.realpath(absolute), os.path.realpath(folder)
        if len(Path(os.path.commonpath(paths)).parts) < 2:  # nothing but the root in common
            return f"Path({quoted(str(absolute))})"
        relative = os.path.relpath(*paths)
    except ValueError:  # another drive
        return f"Path({quoted(str(absolute))})"
    return f"HERE / {quoted(relative.replace(os.sep, '/'))}"


_WIDEST = 110
"""Columns of a line in a script."""


def _bracketed(entries: Sequence[str], brackets: str) -> str:
    """A tuple or dict of these entries, one per line where that is needed."""
    comma = "," if brackets == "()" and len(entries) == 1 else ""
    short = f"{brackets[0]}{', '.join(entries)}{comma}{brackets[1]}"
    if len(short) <= _WIDEST - 20:
        return short
    return "\n".join([brackets[0], *(f"        {entry}," for entry in entries), f"    {brackets[1]}"])


class Call:
    """The model's call in a script: which arrays inputs.npz has, and the expression that puts them together."""

    def __init__(self, pool: Pool, wrap: str, *, some: bool = True) -> None:
        """`wrap`: what makes an input of an array, `torch.from_numpy`; "": the array itself. `some`: of what has rows
        only `rows` are taken."""
        self._some = some
        self.arrays: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]] = {}
        self._axes = iter(pool.axes.axes)
        self._wrap = wrap
        args, kwargs = pool.tree
        self._names = _names(pool)
        self._args = [self._expression(value) for value in args]
        self._kwargs = [f"{literal(key)}: {self._expression(value)}" for key, value in kwargs.items()]

    @property
    def lines(self) -> str:
        """The assignment of args and kwargs in a function."""
        args, kwargs = _bracketed(self._args, "()"), _bracketed(self._kwargs, "{}")
        short = f"    args, kwargs = {args}, {kwargs}"
        if len(short) <= _WIDEST and "\n" not in short:
            return short
        return f"    args = {args}\n    kwargs = {kwargs}"

    def _expression(self, tree: object) -> str:
        if isinstance(tree, Mapping):
            return "{" + ", ".join(f"{literal(key)}: {self._expression(item)}" for key, item in tree.items()) + "}"
        if isinstance(tree, (tuple, list)):
            inner = ", ".join(self._expression(item) for item in tree)
            if isinstance(tree, list):
                return f"[{inner}]"
            return f"({inner},)" if len(tree) == 1 else f"({inner})"
        axis = next(self._axes)
        if not isinstance(tree, np.ndarray):
            return literal(tree)
        name = next(self._names)
        self.arrays[name] = tree
        taken = f"data[{literal(name)}]"
        if axis is not None and self._some:
            taken = f"{taken}[rows]" if axis == 0 else f"{taken}.take(rows, axis={axis})"
        return f"{self._wrap}({taken})" if self._wrap else taken


def _names(pool: Pool) -> Iterator[str]:
    """A short name for every array: of its keyword, else `input`, `input_2`, …"""
    used: set[str] = set()
    for path, leaf in leaves(pool.tree):
        if not isinstance(leaf, np.ndarray):
            continue
        word = path.rpartition("[")[2].strip("]'")
        stem = word if word.isidentifier() and word.isascii() and word != "file" else "input"
        name, count = stem, 1
        while name in used:
            count += 1
            name = f"{stem}_{count}"
        used.add(name)
        yield name
