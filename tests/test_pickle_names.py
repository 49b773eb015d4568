"""The lists of names are held against the modules they speak of."""

from __future__ import annotations

import importlib
import sys
import warnings
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections.abc import Iterator

import pytest

from bnaudit.pickle_names import CALLERS, METHOD_HOLDERS, MUTABLE_STATE, acts_on_import, effect_of, is_harmless
from bnaudit.pickle_names.harmless import HARMLESS
from bnaudit.pickle_names.more_code import CODE, LOADER, MORE_CODE, PROGRAM
from bnaudit.pickle_names.surroundings import ATTRIBUTES, FILES, STATE, SURROUNDINGS

TABLES = [*MORE_CODE.values(), *SURROUNDINGS.values(), HARMLESS]
OF_OTHER_VERSIONS = {"urllib", "unittest.mock", "dataclasses"}
"""Modules of which only names of other Python versions are listed: Python 2's urllib, private functions that came and
went."""
NOT_IMPORTED_HERE = ("idlelib", "test")  # they need a display, or are not installed everywhere


def lines() -> Iterator[tuple[str, list[str]]]:
    for table in TABLES:
        for line in table.strip().splitlines():
            modules, _, names = line.partition(":")
            for module in modules.split():
                yield module, names.split()


def every_name() -> list[str]:
    return [f"{module}.{name}" for module, names in lines() for name in names]


@pytest.mark.parametrize(
    ("name", "effect"),
    [
        ("os.system", PROGRAM),
        ("posix.system", PROGRAM),
        ("builtins.eval", CODE),
        ("torch.serialization.load", LOADER),
        ("shutil.rmtree", FILES),
        ("torch.serialization.os.system", PROGRAM),
        ("torch._utils.sys.modules", STATE),
        ("torch.serialization.os", ATTRIBUTES),
        ("numpy.prod.__globals__", ATTRIBUTES),
        ("__main__.Net", None),
        ("os.path.join", None),
        ("copyreg.__newobj__", None),
        ("system", None),
        ("", None),
    ],
)
def test_effects(name: str, effect: str | None) -> None:
    assert effect_of(name) == effect


def test_no_name_is_both_harmless_and_not() -> None:
    assert not [name for name in every_name() if is_harmless(name) and effect_of(name) is not None]


def test_callers_and_holders_have_no_effect_of_their_own_and_mutable_state_has() -> None:
    assert not [name for name in CALLERS | METHOD_HOLDERS if effect_of(name)]
    assert {effect_of(name) for name in MUTABLE_STATE} == {STATE}


def test_lines_are_whole_names() -> None:
    for module, names in lines():
        assert names, module
        assert all(part.isidentifier() for name in (module, *names) for part in name.split("."))


def offered(module: str) -> object | None:
    """The module or class of that name, where this interpreter's standard library has it."""
    if module.split(".")[0] not in sys.stdlib_module_names or module.startswith(NOT_IMPORTED_HERE):
        return None
    parts = module.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:]:
            found = getattr(found, part, None)
        return found
    return None


def test_every_module_that_is_here_has_some_of_the_names_listed_for_it() -> None:
    by_module: dict[str, list[str]] = {}
    for module, names in lines():
        by_module.setdefault(module, []).extend(name.split(".")[0] for name in names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        here = {module: found for module in by_module if (found := offered(module)) is not None}
    without = {module for module, found in here.items() if not any(hasattr(found, name) for name in by_module[module])}
    assert without <= OF_OTHER_VERSIONS
    assert len(here) > 80


def test_only_a_few_modules_act_on_import() -> None:
    assert acts_on_import("antigravity.geohash") is not None
    assert acts_on_import("collections.OrderedDict") is None


def test_the_names_of_python_2_have_the_effects_of_those_they_stand_for() -> None:
    """What the pickle module itself maps below protocol 3, names and modules."""
    effects = {name: effect for name in every_name() if (effect := effect_of(name)) is not None}
    older = {".".join(old): ".".join(new) for old, new in NAME_MAPPING.items()}
    for old, new in IMPORT_MAPPING.items():
        older.update({old + name[len(new) :]: name for name in effects if name.rpartition(".")[0] == new})
    known = {old: new for old, new in older.items() if new in effects}
    assert {"commands.Popen", "urllib2.urlopen", "cPickle.loads", "__builtin__.eval"} <= set(known)
    assert [old for old in known if effect_of(old) is None] == []
