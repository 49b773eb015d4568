"""The cost of concluding grows as the number of layers, parts and findings, also where no two are alike.

The limits are generous: whatever compares everything with everything takes minutes here.
"""

from __future__ import annotations

import time
from random import Random

import pytest
from builders import batch_norm, description, part

from bnaudit.auditing import conclude
from bnaudit.description import Carrier, Description, Gap, HiddenModule, ModeDependent, PickleImport
from bnaudit.reports import View, renderer
from bnaudit.results import Report
from bnaudit.rules import rules
from bnaudit.settings import Settings

RULES = tuple(rules())
MANY = 3000
SECONDS = 20


def unlike_settings() -> Description:
    """Every layer with an epsilon, momentum, counter and defect of its own: a row of the ledger each."""
    return description(
        part(
            [
                batch_norm(f"l{i}.bn", eps=1e-5 * (1 + i), momentum=i / MANY, counter=i, var=(0.9 + i, 1.4, -2.0 - i))
                for i in range(MANY)
            ]
        )
    )


def unlike_names() -> Description:
    """Names at random, every second layer with a defect: patterns that would catch the others must be split."""
    chance = Random(0)
    names = {f"l{chance.randrange(40)}.{chance.randrange(40)}.{chance.randrange(40)}.bn" for _ in range(MANY)}
    return description(
        part([batch_norm(name, training=i % 2 == 0) for i, name in enumerate(sorted(names))], carrier=Carrier.MODULE)
    )


def many_parts() -> Description:
    """A file of very many models, raw and averaged."""
    return description(
        *(part([batch_norm(mean=(i, 0, 0))], name=f"{'ema' if i % 2 else 'raw'}{i}") for i in range(MANY // 4))
    )


def many_hidden_modules() -> Description:
    """As many modules that eval() does not reach as layers and dropouts."""
    hidden = [
        HiddenModule(path=f"h[{i}]", class_name="a.B", training=True, mode_dependent=(f"h[{i}]",), in_training=True)
        for i in range(MANY)
    ]
    drops = [ModeDependent(name=f"d{i}", kind="dropout", class_name="D", probability=0.5) for i in range(MANY)]
    layers = [batch_norm(f"l{i}", training=True) for i in range(MANY)]
    return description(part(layers, carrier=Carrier.MODULE, hidden=tuple(hidden), mode_dependent=tuple(drops)))


def many_imports_and_gaps() -> Description:
    """A pickle that names and calls very many things, in a file of which little could be read."""
    imports = [
        PickleImport(name=f"{'subprocess' if i % 2 else 'a'}.x{i}", called=i % 3 == 0, arguments=("x" * 70,) * 6)
        for i in range(4 * MANY)
    ]
    gaps = [Gap(where=f"data/{i}", why=f"unreadable in way {i}") for i in range(4 * MANY)]
    return description(part([batch_norm()]), imports=tuple(imports), gaps=tuple(gaps))


@pytest.mark.parametrize(
    "build", [unlike_settings, unlike_names, many_parts, many_hidden_modules, many_imports_and_gaps]
)
def test_thousands_that_are_all_different_take_seconds(build: object) -> None:
    subject: Description = build()  # type: ignore[operator]
    started = time.process_time()
    audit = conclude(subject, Settings(), RULES)
    report = Report(version="0", audits=(audit,))
    for name in ("terminal", "json"):
        assert renderer(name).render(report, View())
    assert not audit.failed
    assert time.process_time() - started < SECONDS
