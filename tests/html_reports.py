"""Reports for the tests of the HTML report: one with everything in it, and a reader of what was written."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html.parser import HTMLParser

from builders import batch_norm, description, part, tensor
from measured import EXACT, LARGE, measured, shift, statistics, swap

from bnaudit.auditing import conclude
from bnaudit.description import Gap as Unread
from bnaudit.measurement import BatchSize, Gap, Repeat, Shift
from bnaudit.records import replace
from bnaudit.results import (
    Acceptance,
    Audit,
    Confidence,
    Failed,
    Finding,
    Outcome,
    Question,
    Report,
    Severity,
    Skipped,
    Unaudited,
    Unmatched,
    Verdict,
)
from bnaudit.settings import Settings

HOSTILE = '<script>alert("x")</script>]]>\u202e$\\frac{a}$\'&amp;'
"""A layer's name that would run, end a section, turn the writing, and be an error in a formula."""
VOID = {"meta", "link", "input", "br", "hr", "img"}
GAP = Gap(
    systematic=0.4,
    noise=0.1,
    plain=0.5,
    bessel=0.003,
    samples=32,
    anchors=8,
    flips=3,
    companion_flips=1,
    decisions=8,
    synthetic=False,
)


def finding(rule: str, layer: str | None, severity: Severity, **fields: object) -> Finding:
    """A finding with every field filled."""
    settings: dict[str, object] = {
        "name": "a-rule",
        "confidence": Confidence.HIGH,
        "artifact": "model.pt",
        "part": "",
        "message": "something is off",
        "value": 0.7,
        "limit": 0.5,
        "advice": "mend it",
        "channels": (3, 1),
        "question": Question.GAP,
        "fails": severity >= Severity.WARNING,
        "undecided": "",
        "fingerprint": "0123456789abcdef",
        **fields,
    }
    return Finding(rule=rule, layer=layer, severity=severity, **settings)  # type: ignore[arg-type]


def accepted(*, expired: bool = False) -> Acceptance:
    """By which a finding is accepted, or was."""
    until = "2020-01-31" if expired else "2099-01-31"
    return Acceptance(source="bnaudit.toml: accept[0]", rule="BN1", reason="known since", until=until, expired=expired)


def eventful(layers: int = 40) -> Audit:
    """Layers of which some are off, with a run, findings of every standing, what did not run and what was not read."""
    norms = [batch_norm(f"layer{n}.bn", counter=20 + n, momentum=0.1) for n in range(layers - 3)]
    norms += [batch_norm(HOSTILE, counter=tensor("n", math.nan)), batch_norm("pruned", gamma=(0.0, 1.0, 2.0))]
    norms += [batch_norm("broken", var=(math.nan, -1.0, math.inf))]
    base = conclude(description(part(norms), gaps=(Unread(where="data/7", why="sparse tensor"),)), Settings(), [])
    received = [statistics(norm.name, n, mean_shift=0.02 + n * 0.001) for n, norm in enumerate(norms[:-1])]
    received[3] = statistics(norms[3].name, 3, mean_shift=1.5, ratio=9.0)
    received[5] = statistics(norms[5].name, 5, mean_shift=0.0, ratio=1.0)
    received[7] = statistics(norms[7].name, 7, mean_shift=2.0, samples=4)
    shown = measured(
        *received,
        GAP,
        swap(other=EXACT, scaled=LARGE, alone=shift(1e-3)),
        BatchSize(one=None, two=shift(1e-8)),
        Repeat(in_a_row=Shift(exact=False, difference=math.inf), restored=None),
    )
    found = (
        finding("BN404", norms[3].name, Severity.ERROR),
        finding("BN404", HOSTILE, Severity.ERROR, value=math.nan),
        finding("BN105", norms[0].name, Severity.WARNING, acceptance=accepted(expired=True)),
        finding("BN106", "broken", Severity.ERROR, acceptance=accepted(), message="known and accepted"),
        finding("BN302", norms[1].name, Severity.NOTE, intended=True, confidence=Confidence.MEDIUM),
        finding("BN901", None, Severity.ERROR, question=None, message="loading it runs a program"),
    )
    verdicts = (
        Verdict(question=Question.BUFFERS, outcome=Outcome.PASSED, reason="none is missing"),
        Verdict(question=Question.EVAL_MODE, outcome=Outcome.FAILED, reason="one is not"),
        Verdict(question=Question.NEIGHBOURS, outcome=Outcome.INCONCLUSIVE, reason="no telling"),
        Verdict(question=Question.GAP, outcome=Outcome.NOT_CHECKED, reason="no inputs", needs="your --inputs"),
        Verdict(question=Question.FROZEN, outcome=Outcome.PASSED, reason="nothing is"),
    )
    return replace(
        base,
        verdicts=verdicts,
        findings=found,
        measured=shown,
        failed=(Failed(rule="BN199", name="broken-rule", error="ZeroDivisionError"),),
        skipped=(
            Skipped(rule="BN301", name="neighbours", needs="a run"),
            Skipped(rule="BN303", name="x", needs="a run"),
        ),
        required=(Question.EVAL_MODE,),
    )


def everything() -> Report:
    """Several artifacts, one not audited, one pattern that fits nothing."""
    healthy = conclude(description(part([batch_norm("bn1"), batch_norm("bn2")])), Settings(), [])
    return Report(
        version="0.1.0",
        audits=(eventful(), healthy),
        unaudited=(Unaudited(path="cut.pt", why="cut.pt is truncated: copy it again", error=True),),
        unmatched=(Unmatched(key="bnaudit.toml: intended.BN302", why="no layer fits prenet.*", error=True),),
        other_files=2,
        rules={"BN101": "x"},
        gate=True,
    )


class Element:
    """An element with what is in it."""

    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag = tag
        self.attributes = attributes
        self.children: list[Element | str] = []

    def all(self, tag: str = "") -> Iterator[Element]:
        """The elements below it with this tag, in order."""
        for child in self.children:
            if isinstance(child, Element):
                if tag in ("", child.tag):
                    yield child
                yield from child.all(tag)

    @property
    def text(self) -> str:
        """All text below it."""
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def id(self, id: str) -> Element:
        """The element with this id."""
        return next(each for each in self.all() if each.attributes.get("id") == id)

    def table(self) -> list[list[str]]:
        """The cells of the first table in it, heads and all."""
        rows = next(self.all("table")).all("tr")
        return [[cell.text for cell in row.all() if cell.tag in ("td", "th")] for row in rows]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().tag == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def read(text: str) -> Element:
    """The document as elements; every element has to be closed where it belongs."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == [reader.root], "an element is not closed"
    return reader.root
