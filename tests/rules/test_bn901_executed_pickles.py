"""BN901 on pickles that do harm without naming it: Python's own pickle runs each of them in a process of its own.

That process shows the effect to be real; bnaudit then has to report an error, and nothing may happen here.
"""

from __future__ import annotations

import collections
import functools
import json.encoder
import os
import pathlib
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from builders import hits

from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.pickles.machine import run
from bnaudit.results import Hit, Severity

GETATTR = b"cbuiltins\ngetattr\n"
ESCAPE = b"cglob\nescape\n"  # a harmless function of a module that imports os
LOAD = "import collections, json.encoder, os, pickle, sys; found = pickle.load(open(sys.argv[1], 'rb')); print({})"


class Attack(NamedTuple):
    """A pickle, and the expression that is true once it has been loaded."""

    opcodes: bytes
    evidence: str


def text(value: str) -> bytes:
    """A push of text."""
    raw = value.encode()
    return b"X" + len(raw).to_bytes(4, "little") + raw


def get(owner: bytes, name: str) -> bytes:
    """`getattr(owner, name)`."""
    return GETATTR + owner + text(name) + b"\x86R"


def call(function: bytes, *args: bytes) -> bytes:
    """`function(*args)`."""
    return function + b"(" + b"".join(args) + b"tR"


def changes() -> dict[str, Attack]:
    """Pickles that change something outside them; most without a call."""
    user_dict, environ = b"ccollections\nUserDict\n", b"cos\nenviron\n"
    slots = b"N}" + text("owned") + text("yes") + b"s\x86b"
    owned = "getattr(collections.UserDict, 'owned', '') == 'yes'"
    in_environ, in_path = "os.environ.get('OWNED') == 'yes'", "'owned' in sys.path"
    table = get(b"cjson\nencoder\n", "ESCAPE_DCT")
    return {
        "SETITEM": Attack(environ + text("OWNED") + text("yes") + b"s", in_environ),
        "SETITEMS": Attack(environ + b"(" + text("OWNED") + text("yes") + b"u", in_environ),
        "APPEND": Attack(b"csys\npath\n" + text("owned") + b"a", in_path),
        "APPENDS": Attack(b"csys\npath\n(" + text("owned") + b"e", in_path),
        "ADDITEMS": Attack(b"cos\nsupports_fd\n(" + text("owned") + b"\x90", "'owned' in os.supports_fd"),
        "BUILD a class": Attack(user_dict + slots, owned),
        "BUILD a function": Attack(
            b"cjson\nloads\n}" + text("owned") + text("yes") + b"sb", "hasattr(json.loads, 'owned')"
        ),
        "BUILD the class of an object": Attack(call(b"cbuiltins\ntype\n", user_dict + b")\x81") + slots, owned),
        "SETITEM on what was fetched": Attack(
            table + text("owned") + text("yes") + b"s", "json.encoder.ESCAPE_DCT.get('owned') == 'yes'"
        ),
    }


def accesses(canary: str) -> dict[str, Attack]:
    """Pickles that get to `os.mkdir(canary)`, or near it, through attributes."""
    made = f"os.path.isdir({canary!r})"
    own = b"ccollections\nUserDict\n)\x81"
    namespace = get(ESCAPE, "__globals__")
    mkdir = call(get(call(get(namespace, "get"), text("os")), "mkdir"), text(canary))
    partial = b"cfunctools\npartial\n"
    first = call(partial, b"cbuiltins\nlen\n") + b"0"
    by_partial = call(call(partial, GETATTR, ESCAPE, text("__globals__")))
    state = b"(" + GETATTR + ESCAPE + text("__globals__") + b"\x86}Ntb"
    computed = GETATTR + b"cglob\nos\n" + call(b"coperator\nconcat\n", text("mk"), text("dir")) + b"\x86R"
    module = type(pathlib.Path()).__module__
    path = call(f"c{module}\n{type(pathlib.Path()).__name__}\n".encode(), text(canary))
    return {
        "by a special attribute": Attack(mkdir, made),
        "behind a harmless getattr": Attack(get(own, "copy") + b"0" + mkdir, made),
        "by a module of another": Attack(call(get(b"cglob\nos\n", "mkdir"), text(canary)), made),
        "by a computed name": Attack(call(computed, text(canary)), made),
        "by a method of an object": Attack(call(get(path, "mkdir")), made),
        "by a class": Attack(get(own, "__class__"), "found is collections.UserDict"),
        "by partial": Attack(first + by_partial, "found['__name__'] == 'glob'"),
        "by the state of a partial": Attack(
            first + call(partial, b"cbuiltins\nlen\n") + state + b")R", "found['__name__'] == 'glob'"
        ),
    }


def loaded_by_python(path: Path, evidence: str) -> str:
    """What the expression is after another process has loaded the pickle."""
    code = LOAD.format(evidence)
    return subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    ).stdout.strip()


def errors_in(path: Path) -> list[Hit]:
    with ByteSource.open(path) as source:
        found = hits("bn901_unsafe_pickle", imports=run(source).imports)
    return [hit for hit in found if hit.severity is Severity.ERROR]


@pytest.mark.parametrize("name", changes())
def test_changing_something_outside_is_an_error(name: str, tmp_path: Path) -> None:
    attack, path = changes()[name], tmp_path / "attack.pkl"
    path.write_bytes(b"\x80\x04" + attack.opcodes + b".")
    assert loaded_by_python(path, attack.evidence) == "True"

    assert errors_in(path)

    here = {"collections": collections, "json": json, "os": os, "sys": sys}
    assert not eval(attack.evidence, here)


@pytest.mark.parametrize("name", accesses(""))
def test_getting_there_by_attributes_is_an_error(name: str, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    attack, path = accesses(str(canary))[name], tmp_path / "attack.pkl"
    path.write_bytes(b"\x80\x04" + attack.opcodes + b".")
    assert loaded_by_python(path, attack.evidence) == "True"
    if canary.exists():
        canary.rmdir()

    assert errors_in(path)
    assert not canary.exists()


def plain_function() -> None:
    """A function of this module, pickled by name."""


class Counter:
    """An object with a hook that is a method of its own."""

    def __init__(self) -> None:
        self.hook: Callable[..., Any] = self.count
        self.table = {"a": 1}
        self.lookup = self.table.__getitem__
        self.partial = functools.partial(self.count, 1)
        self.function = plain_function

    def count(self, *_: Any) -> None:
        """Does nothing."""


@pytest.mark.parametrize("protocol", range(2, 6))
def test_objects_that_keep_their_own_methods_are_no_error(protocol: int, tmp_path: Path) -> None:
    path = tmp_path / "honest.pkl"
    path.write_bytes(pickle.dumps(Counter(), protocol))
    with ByteSource.open(path) as source:
        found = hits("bn901_unsafe_pickle", imports=run(source).imports)
    assert [hit.severity for hit in found] == [Severity.NOTE]
