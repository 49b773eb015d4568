"""The text of code/ files: what is parsed, what is refused, and that nothing is run."""

from __future__ import annotations

import ast
import time

import pytest

from bnaudit.errors import MalformedError
from bnaudit.reading.torchscript.source import attribute_name, definitions, parse_definition

TWO = r"""op_version_set = 1
class A(Module):
  training : bool
  def f(self) -> str:
    return "\nclass B"
def g() -> int:
  return 1
"""


def test_definitions_are_found_by_name_and_not_inside_strings() -> None:
    found = definitions(TWO)
    assert list(found) == ["A", "g"]
    assert found["g"] == "def g() -> int:\n  return 1\n"


def test_a_definition_is_parsed_alone() -> None:
    assert isinstance(parse_definition(definitions(TWO)["A"], "A"), ast.ClassDef)
    assert isinstance(parse_definition(definitions(TWO)["g"], "g"), ast.FunctionDef)


def test_attributes_named_like_keywords_are_read() -> None:
    method = "  def f(self) -> int:\n    _0 = self.lambda\n    return (self.async).forward(_0, )\n"
    node = parse_definition(f"class A(Module):\n  lambda : int\n{method}", "A")
    assert isinstance(node, ast.ClassDef)
    attributes = {attribute_name(found.attr) for found in ast.walk(node) if isinstance(found, ast.Attribute)}
    assert attributes == {"lambda", "async", "forward"}
    declared = node.body[0]
    assert isinstance(declared, ast.AnnAssign) and isinstance(declared.target, ast.Name)
    assert attribute_name(declared.target.id) == "lambda"


N = 300_000
HOSTILE = {
    "attributes": "a" + ".b" * N,
    "sums": "1" + "+1" * N,
    "calls": "f" + "()" * N,
    "indices": "a" + "[0]" * N,
    "minus": "-" * N + "1",
    "not": "not " * N + "1",
    "choices": "1 if a else " * N + "1",
    "lambdas": "lambda:" * N + "1",
    "parentheses": "(" * N + ")" * N,
    "lists": "[" * N + "]" * N,
    "powers": "1" + "**1" * N,
    "digits": "9" * N,
    "lines in brackets": "(a" + "\n.b" * N + ")",
    "continued lines": "a" + "\\\n.b" * N,
    "strings in a chain": "a" + '["x"]' * N,
    "quotes in a string without end": '"' + '\\"' * N,
    "quotes of both kinds": "'\"" * (N // 2) + "'",
    "a chain behind three quotes": '""" " """ + a' + ".b" * N + ' + "x"',
    "zero byte": "1\0",
    "half a surrogate": "'\ud800'",
    "nothing": "",
    "two statements": "1\nclass B: pass",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_text_is_refused_quickly(kind: str) -> None:
    started = time.process_time()
    with pytest.raises(MalformedError):
        parse_definition(f"def f():\n  return {HOSTILE[kind]}\n" if kind != "nothing" else "", "f")
    assert time.process_time() - started < 3


def test_an_endless_else_if_is_refused() -> None:
    with pytest.raises(MalformedError):
        parse_definition("def f():\n  if a:\n    pass\n" + "  elif a:\n    pass\n" * 100_000, "f")


def test_long_code_without_chains_is_read() -> None:
    listed = ", ".join(["0.125"] * 50_000)
    steps = "".join(f"  _{n} = torch.relu(_{n - 1})\n" for n in range(1, 5_000))
    text = f'def f(_0: Tensor) -> Tensor:\n  a = [{listed}]\n  b = "{"x" * 100_000}"\n{steps}  return _1\n'
    assert isinstance(parse_definition(text, "f"), ast.FunctionDef)
