"""The mutation check, on modules of its own: what it changes, what it finds, what it can not overlook."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import CodeType, ModuleType

import pytest
from mutation.check import file_of, stale
from mutation.forked import Subject, Variant, judge
from mutation.in_place import put_into
from mutation.mutants import Mutant, mutants, mutated
from mutation.near_tests import groups, modules

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the check forks")
SOURCE = '''"""A docstring: 3 < 4 and 5."""

from collections.abc import Iterator

LIMIT = 10


def is_large(value: float, extra: bool = False) -> bool:
    return value > LIMIT or extra


def large(values: list[float]) -> Iterator[float]:
    for value in values:
        if is_large(value):
            yield value
'''


def changes(source: str) -> list[tuple[str, str, str]]:
    return [(each.operator, each.before, each.after) for each in mutants(source, "m.py")]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a < b", [("comparison", "a < b", "a <= b"), ("comparison", "a < b", "a >= b")]),
        ("a == b", [("comparison", "a == b", "a != b")]),
        ("a is not b", [("comparison", "a is not b", "a is b")]),
        ("a and b", [("clause", "a and b", "without a"), ("clause", "a and b", "without b")]),
        ("x if a else y", [("condition", "a", "not (a)")]),
        ("[x for x in y if not x]", [("condition", "not x", "x")]),
        ("any(x)", [("call", "any(x)", "all(x)"), ("statement", "any(x)", "pass")]),
        ("x.min()", [("call", "x.min()", "x.max()"), ("statement", "x.min()", "pass")]),
        ("a * -b", [("arithmetic", "a * -b", "a / -b"), ("arithmetic", "-b", "+b")]),
        ("LIMIT = 0.5", [("constant", "0.5", "0.55"), ("constant", "0.5", "0.45")]),
        ("f(3)", [("constant", "3", "4"), ("statement", "f(3)", "pass")]),
        ("Severity.ERROR", [("member", "Severity.ERROR", "Severity.WARNING")]),
        ("def f():\n    yield x", [("statement", "yield x", "pass")]),
        ("def f():\n    return (a, b)", [("emptied", "return (a, b)", "return ()")]),
        ("NAMES = (a, b)", [("item", "…, a, …", "…, …"), ("item", "…, b, …", "…, …")]),
        ("x in (a,)", [("comparison", "x in (a,)", "x not in (a,)"), ("item", "…, a, …", "…, …")]),
    ],
)
def test_each_thing_that_a_rule_decides_by_is_changed(source: str, expected: list[tuple[str, str, str]]) -> None:
    assert sorted(changes(source)) == sorted(expected)


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring: 3 < 4."""',
        'x = f"{3 + n} channel{"s" if n > 1 else ""}"'.replace('f"', "f'''").replace('""}"', '""}' + "'''"),
        "if TYPE_CHECKING:\n    LIMIT = 3 < 4",
        "def f(x: A | B = y) -> C | D: ...",
        "x = y[3]",
        "x = round(y, 3)",
    ],
)
def test_wording_and_types_are_left_alone(source: str) -> None:
    assert changes(source) == []


def test_every_mutant_differs_from_the_module_and_compiles() -> None:
    as_it_is = ast.dump(ast.parse(SOURCE))
    for mutant in mutants(SOURCE, "m.py"):
        tree = mutated(SOURCE, mutant)
        assert ast.dump(tree) != as_it_is, mutant.id
        compile(tree, "m.py", "exec")


def test_ids_are_unique_and_survive_moved_lines() -> None:
    for path in modules()[::6]:
        source = path.read_text(encoding="utf-8")
        found = mutants(source, file_of(path))
        assert len({each.id for each in found}) == len(found)
        moved = source.replace("\nfrom __future__", "\n\n# a new line\nfrom __future__", 1)
        assert [each.id for each in mutants(moved, file_of(path))] == [each.id for each in found]


def test_a_removed_yield_leaves_a_generator() -> None:
    (removed,) = (each for each in mutants(SOURCE, "m.py") if each.operator == "statement")
    space: dict[str, object] = {}
    exec(compile(mutated(SOURCE, removed), "m.py", "exec"), space)
    assert list(space["large"]([20.0])) == []  # type: ignore[operator]


def test_functions_taken_before_see_the_mutant() -> None:
    module = ModuleType("m")
    exec(compile(SOURCE, "m.py", "exec"), vars(module))
    taken = module.large
    turned = next(each for each in mutants(SOURCE, "m.py") if each.after == "value <= LIMIT")
    put_into(module, compile(mutated(SOURCE, turned), "m.py", "exec"))
    assert list(taken([5.0, 20.0])) == [5.0]


@needs_fork
@pytest.mark.parametrize("first", ["from large_values import large\n\n", ""])
def test_a_fork_sees_the_mutant_whether_its_tests_imported_the_module_before_or_import_it_now(
    tmp_path: Path, first: str
) -> None:
    own = "" if first else "    from large_values import large\n"
    test = f"{first}def test_it():\n{own}    assert list(large([5, 9, 20])) == [20]\n"
    outcomes = judged(tmp_path, test)
    assert outcomes.pop("") == "survived", "the module as it is passes its tests"
    by_change = {id.partition("::")[2].split("::", 1)[1]: outcome for id, outcome in outcomes.items()}
    assert by_change["comparison::value > LIMIT -> value <= LIMIT"] == "killed"
    assert by_change["statement::yield value -> pass"] == "killed"
    assert by_change["comparison::value > LIMIT -> value >= LIMIT"] == "survived", "no test asks at the limit"


@needs_fork
def test_a_constant_that_tests_took_before_is_seen_by_who_imports_it_afresh(tmp_path: Path) -> None:
    test = "from large_values import LIMIT\n\ndef test_it():\n    assert LIMIT == 10\n"
    mutant = next(each for each in mutants(SOURCE, "large_values.py") if each.operator == "constant")
    assert mutant.at_import
    assert judged(tmp_path, test)[mutant.id] == "survived"
    assert judged(tmp_path, test, mutant.id) == {"": "broken"}


@needs_fork
@pytest.mark.parametrize(
    ("test", "told"),
    [
        ("def test_it():\n    assert True\n", "hidden"),
        ("from large_values import large\n\ndef test_it():\n    assert list(large([20])) == []\n", "broken"),
        ("import no_such_module\n", "broken"),
    ],
)
def test_tests_that_say_nothing_of_the_module_judge_no_mutant(tmp_path: Path, test: str, told: str) -> None:
    assert judged(tmp_path, test) == {"": told}


def judged(folder: Path, test: str, id: str = "") -> dict[str, str]:
    """What becomes of the mutants of a module, or of the module as this mutant alone, under one file of tests.

    In a process of its own: a fork of one that runs threads, as other tests here start them, may wait for ever.
    """
    (folder / "large_values.py").write_text(SOURCE, encoding="utf-8")
    (folder / "test_large_values.py").write_text(test, encoding="utf-8")
    script = "import sys, test_mutation; test_mutation.judge_here(*sys.argv[1:])"
    here = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (here, here.parent)))}
    command = [sys.executable, "-c", script, str(folder), id]
    subprocess.run(command, env=environment, check=True, timeout=300, capture_output=True)
    return dict(map(json.loads, (folder / "answers").read_text(encoding="utf-8").splitlines()))


def judge_here(place: str, id: str) -> None:
    folder = Path(place)
    path, tests = folder / "large_values.py", folder / "test_large_values.py"
    alone = next((_code(each) for each in mutants(SOURCE, path.name) if each.id == id), None)
    variants = [Variant(each.id, partial(_code, each)) for each in mutants(SOURCE, path.name) if alone is None]
    subject = Subject("large_values", path, [tests], alone or compile(SOURCE, str(path), "exec"))
    with (folder / "answers").open("w", encoding="utf-8") as out:
        os.waitpid(judge(subject, variants, folder, out), 0)


def _code(mutant: Mutant) -> CodeType:
    return compile(mutated(SOURCE, mutant), "large_values.py", "exec")


def test_each_module_has_tests_of_its_own_first() -> None:
    for path in modules():
        (nearest,) = groups(path, 1)
        assert nearest and all(test.exists() for test in nearest)


def test_no_test_is_asked_twice_and_none_that_starts_a_process_of_its_own() -> None:
    asked = groups(modules()[1], 3)
    assert len(asked) == 3
    assert len({test for group in asked for test in group}) == sum(map(len, asked))
    assert not [test for group in asked[1:] for test in group if "subprocess" in test.read_text(encoding="utf-8")]


def test_a_justification_of_nothing_is_told() -> None:
    found = mutants(SOURCE, "m.py")
    killed, survivor = found[0].id, found[1].id
    outcomes = {each.id: "killed" for each in found} | {survivor: "survived"}
    reasons = {killed: "", survivor: "", "m.py::gone": "", "other.py::x": ""}
    assert stale(found, outcomes, reasons, whole=False) == [f"a test finds it: {killed}", "it is no mutant: m.py::gone"]
    assert "it is no mutant: other.py::x" in stale(found, outcomes, reasons, whole=True)
