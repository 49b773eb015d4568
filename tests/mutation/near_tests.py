"""Which tests are asked whether a module is wrong: the nearest first, each further group only when the last passed."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
PACKAGE = ROOT / "bnaudit"
_APART = re.compile("subprocess|worker_pool|processpool|scripts_apart|jobs=2|runpytest")
"""A new process imports the module as it stands on disk and never sees the mutant: such tests pass whatever it is."""
_ELSEWHERE = {"mutation", "bench", "fault_matrix", "zoo", "reproduction", "reports", "policy", "terminal"}
_CONDITIONS: dict[str, tuple[str, ...]] = {
    "arithmetic": (),
    "gap_limits": ("bn403", "bn404", "bn407"),
    "initial_state": ("bn103", "bn104", "bn105", "bn108", "bn112", "bn113", "bn116", "bn117", "bn607"),
    "modes": ("bn201", "bn202", "bn203", "bn205", "bn206", "bn208", "bn501"),
}
"""Modules that several rules have their conditions from, and whose tests ask about them beside the module's own."""
_OF_EVERY_RULE = [
    TESTS / "rules" / f"test_{name}.py"
    for name in ("declarations", "contract", "contract_compared", "contract_measured")
]
"""Of these only the tests that bear the rule's id are asked."""
_STATIC = ("test_controls.py", "test_defects_in_carriers.py", "test_checkpoint_zoo.py")
_RUN = ("run_time", "runners", "torch_session", "onnx_session")
_COMPARED = ("test_compared_samples.py", "comparing", "folding")


def modules() -> list[Path]:
    """What is mutated."""
    plugins = [*sorted((PACKAGE / "rules").glob("*.py")), *sorted((PACKAGE / "probes").glob("*.py"))]
    return [*plugins, *(PACKAGE / f"{name}.py" for name in _CONDITIONS)]


@cache
def groups(module: Path, depth: int) -> list[list[Path]]:
    """The tests of a module in at most `depth` groups, the nearest first; none stands in two."""
    asked: list[list[Path]] = []
    for find in (_own, _of_the_kind, _broad)[:depth]:
        before = {test for earlier in asked for test in earlier}
        fresh = [test for test in dict.fromkeys(find(module)) if test not in before]
        if fresh:
            asked.append(fresh)
    return asked


def is_asked(module: Path, test: Path, name: str) -> bool:
    """Whether a test, of those collected, is about the module: of the tests of every rule those of this one."""
    return test not in _OF_EVERY_RULE or f"[{module.stem.split('_')[0].upper()}]" in name


def _own(module: Path) -> list[Path]:
    if module.parent.name == "probes":
        own = TESTS / "probes" / f"test_{module.stem}.py"
        if module.stem == "__init__":
            own = TESTS / "test_experiment.py"
        return [own if own.exists() else TESTS / "probes" / "test_other_modes.py"]
    if module.parent.name == "rules":
        id = module.stem.split("_")[0]
        if not id.startswith("bn"):
            return [TESTS / "rules" / "test_registry.py"]
        return [*sorted((TESTS / "rules").glob(f"test_{id}_*.py")), *_OF_EVERY_RULE]
    named = [*TESTS.glob(f"test_{module.stem}.py"), *TESTS.glob(f"test_worked_{module.stem}.py")]
    return [*named, *(test for id in _CONDITIONS[module.stem] for test in (TESTS / "rules").glob(f"test_{id}_*.py"))]


def _of_the_kind(module: Path) -> list[Path]:
    """The family's tests, and every test that names the rule."""
    if module.parent.name != "rules":
        return [test for test in _in_process() if module.stem in _text(test)]
    id = module.stem.split("_")[0]
    family = TESTS / "rules" / f"test_{id[:3]}_family.py"
    named = [test for test in _in_process() if id in _text(test)]
    return [*([family] if family.exists() else []), *named]


def _broad(module: Path) -> list[Path]:
    kind = module.stem[2:3] if module.parent.name == "rules" else ""
    if module.parent.name == "probes" or kind in "345":
        return _files(_RUN)
    return _files(_COMPARED if kind == "6" else _STATIC)


def _files(names: tuple[str, ...]) -> list[Path]:
    found = [test for name in names for test in [TESTS / name, *sorted((TESTS / name).glob("test_*.py"))]]
    return [test for test in found if test.suffix == ".py" and test in _in_process()]


@cache
def _in_process() -> tuple[Path, ...]:
    """All test files that start no other process, but for those of parts that stand above the rules."""
    found = [test for test in sorted(TESTS.rglob("test_*.py")) if not _ELSEWHERE & set(test.parts)]
    return tuple(test for test in found if not _APART.search(_text(test)))


@cache
def _text(path: Path) -> str:
    """In small letters."""
    return path.read_text(encoding="utf-8").lower()
