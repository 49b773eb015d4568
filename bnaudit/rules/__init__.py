'''One file per rule. A plugin is a module with one function under the decorator:

    """What it finds ...  (the page that `bnaudit explain BN106` prints; headings below)"""

    @rule(id="BN106", severity=Severity.ERROR, question=Question.BUFFERS, limits={})
    def non_finite_statistics(case: Case) -> Iterator[Hit]:
        ...

The function's name is the rule's name (`non-finite-statistics`) and the file is
`bn106_non_finite_statistics.py`. The module docstring is the page, Markdown with exactly the headings
`## What it finds`, `## Why it matters`, `## Worked arithmetic` or `## Example`, `## How to fix`, `## Limits`,
after one first line, the summary that the table of rules shows.
'''

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from bnaudit.description import Description
from bnaudit.plugins import load, names
from bnaudit.results import Hit, Question, Severity

if TYPE_CHECKING:
    from bnaudit.comparison import Comparison
    from bnaudit.measurement import Measured


class Case(NamedTuple):
    """All that a rule may see."""

    subject: Description
    limits: Mapping[str, float]
    """This rule's limits, as its decorator declares them or as the settings override them."""
    comparison: Comparison | None = None
    """With what the subject is compared; never None for a rule that `needs` a baseline."""
    measured: Measured | None = None
    """What a run showed; never None for a rule that `needs` a probe."""


Check = Callable[[Case], Iterator[Hit]]


class Rule(NamedTuple):
    """The contract of a rule plugin."""

    id: str
    name: str
    severity: Severity
    check: Check
    doc: str
    question: Question | None
    """The verdict that a hit fails."""
    limits: Mapping[str, float]
    needs: tuple[str, ...]
    """`baseline` or names of probes; empty: the description is enough."""
    yields_to: tuple[str, ...]
    """Ids of more specific rules: a hit on a layer where one of them hits is dropped (one defect, one finding)."""

    @property
    def summary(self) -> str:
        """The first line of the page."""
        return self.doc.strip().split("\n", 1)[0]


def rule(
    *,
    id: str,
    severity: Severity,
    question: Question | None = None,
    limits: Mapping[str, float] | None = None,
    needs: tuple[str, ...] = (),
    yields_to: tuple[str, ...] = (),
) -> Callable[[Check], Rule]:
    """Make a Rule of a check function; its page is the docstring of the module it stands in."""

    def make(check: Check) -> Rule:
        doc = sys.modules[check.__module__].__doc__ or ""
        name = check.__name__.replace("_", "-")
        frozen = MappingProxyType(dict(limits or {}))
        return Rule(id, name, severity, check, doc, question, frozen, needs, yields_to)

    return make


def rules() -> Iterator[Rule]:
    """All rules, by id."""
    for file_name in names(__name__):
        yield load_rule(file_name)


def load_rule(file_name: str) -> Rule:
    """The one rule in a file of this folder (`bn106_non_finite_statistics`)."""
    module = load(__name__, file_name)
    (found,) = (value for value in vars(module).values() if isinstance(value, Rule))
    return found


def rule_files() -> dict[str, str]:
    """The file names of all rules by their ids, `BN106`; none is imported."""
    return {rule_id(name): name for name in names(__name__)}


def rule_id(file_name: str) -> str:
    """`BN106` for `bn106_non_finite_statistics`, so that selecting by prefix imports only what is selected."""
    return file_name.split("_", 1)[0].upper()
