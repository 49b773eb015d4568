"""Writes the skeleton of a rule and of its tests: `make new-rule ID=BN119 NAME=some-defect`.

What has to be written stands in ‹angle quotes›; until then the rule breaks and its tests fail.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
ORDERS = ("avoid-", "use-", "prefer-", "no-", "do-not-", "dont-", "check-", "should-", "must-", "require-")

RULE = '''"""‹One sentence on what is wrong with the model, at most 100 characters.›

## What it finds

‹Which layers or files, by which numbers; the words of the verdict if it decides one.›

## Why it matters

‹What goes wrong in a deployment, and for which inputs; how much, in numbers.›
‹How the defect comes about.›

## Worked arithmetic

‹One small case, worked by hand:›

    ‹y = gamma · (x − mean) / √(variance + epsilon) + beta = …›

## How to fix

‹What to do, in the order of what is most likely.›

    ‹code that mends the model or the file›

## Limits

- ‹What the rule does not see.›
- ‹Where it is silent although it looks like the defect, and why.›
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.description import NormLayer
from bnaudit.results import Hit, Severity
from bnaudit.rules import Case, rule


@rule(id="{id}", severity=Severity.WARNING)
def {function}(case: Case) -> Iterator[Hit]:
    """One hit per layer."""
    for part, layer in case.subject.layers:
        if _is_defective(layer):
            yield Hit(
                message="‹what is wrong, without the layer's name and without a full stop›",
                advice="‹what to do, one line that is the same for every layer›",
                layer=layer.name,
                part=part.name,
            )


def _is_defective(layer: NormLayer) -> bool:
    """‹When it is the defect; False where the file does not say.›"""
    raise NotImplementedError("‹the condition›")
'''

TESTS = """from __future__ import annotations

from functools import partial

import pytest
from builders import batch_norm, hits, part

run = partial(hits, "{file}")


def test_a_layer_with_the_defect_is_found() -> None:
    (hit,) = run(part([batch_norm("healthy"), batch_norm("bn1")]))  # ‹give bn1 the defect›
    assert hit.layer == "bn1"


def test_a_near_miss_is_silent() -> None:
    assert run(part([batch_norm()])) == []
    pytest.fail("‹a healthy layer as close to the limit as can be›")


def test_what_the_file_does_not_say_is_no_defect() -> None:
    assert run(part([batch_norm(mean=None, var=None, gamma=None, beta=None, counter=None)])) == []
    pytest.fail("‹each fact that the rule uses, unknown›")
"""


def write_skeletons(root: Path, id: str, name: str) -> tuple[Path, Path]:
    """Write the two files below `root` and return their paths.

    Raises SystemExit with one sentence when the id or the name is not a rule's, or is taken.
    """
    folder = root / "bnaudit" / "rules"
    taken = dict(path.stem.split("_", 1) for path in folder.glob("bn[0-9]*_*.py"))
    refuse(id, name, {key.upper(): value.replace("_", "-") for key, value in taken.items()})
    function = name.replace("-", "_")
    file = f"{id.lower()}_{function}"
    rule, tests = folder / f"{file}.py", root / "tests" / "rules" / f"test_{file}.py"
    for path, text in ((rule, RULE), (tests, TESTS)):
        filled = text.replace("{id}", id).replace("{function}", function).replace("{file}", file)
        with path.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(filled)
    return rule, tests


def refuse(id: str, name: str, taken: dict[str, str]) -> None:
    """Raise SystemExit when no rule may have this id or name; `taken` are the names in use by id."""
    if not re.fullmatch(r"BN\d{3}", id):
        raise SystemExit(
            f"{id!r} is no rule id: give BN and three digits, as in make new-rule ID=BN119 NAME=some-defect"
        )
    if not re.fullmatch(r"[a-z]+(-[a-z]+)+", name):
        raise SystemExit(f"{name!r} is no rule name: give two or more lower-case words with hyphens, as in some-defect")
    if name.startswith(ORDERS):
        raise SystemExit(f"{name!r} is an order: name the defect, so that it reads as “allow {name.split('-', 1)[1]}”")
    if id in taken:
        raise SystemExit(f"{id} is taken by {taken[id]}: the next free number is {next_free(id, set(taken))}")
    if name in taken.values():
        raise SystemExit(f"there is a rule named {name} already: say what is different about this defect")


def next_free(id: str, taken: set[str]) -> str:
    """The first id of the same hundred, or a later one, that no rule has."""
    return next(found for number in range(int(id[2]) * 100 + 1, 2000) if (found := f"BN{number:03}") not in taken)


if __name__ == "__main__":
    written = write_skeletons(ROOT, *[*sys.argv[1:], "", ""][:2])
    names = " and ".join(path.relative_to(ROOT).as_posix() for path in written)
    sys.stdout.write(f"{names}: write what stands in ‹angle quotes›, then run make check and tests/test_readme.py\n")
