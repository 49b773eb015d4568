"""What the page says of one artifact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bnaudit.html.finding_groups import Group, groups
from bnaudit.html.layer_rows import LayerRow, layer_rows
from bnaudit.html.pictures import Pictures, pictures
from bnaudit.obstacles import by_need
from bnaudit.results import Audit, Finding, Question, Severity, Skipped
from bnaudit.terminal.amounts import counts
from bnaudit.terminal.comparison_conclusion import conclusion, is_equal
from bnaudit.terminal.comparison_tables import Listing, sides, tables, title, told
from bnaudit.terminal.ledger_table import why_no_layers
from bnaudit.terminal.run_lines import run_texts
from bnaudit.terminal.verdict_lines import about, unspoken_errors
from bnaudit.terminal.whole_report import is_notable


class Compared(NamedTuple):
    """What the page says of a comparison."""

    title: str
    is_equal: bool
    sides: Sequence[tuple[str, str]]
    conclusion: Sequence[str]
    told: Sequence[str]
    tables: Sequence[Listing]


class ArtifactSection(NamedTuple):
    """One artifact."""

    id: str
    name: str
    """Its path below the folder that all share."""
    audit: Audit
    about: str
    """Format, producer, size."""
    is_notable: bool
    alarms: tuple[Finding, ...]
    """Errors that no verdict speaks of, one per rule; of a comparison, which has no verdicts, none."""
    found: tuple[tuple[Severity, str], ...]
    """How many open findings of each severity, in words."""
    groups: tuple[Group, ...]
    accepted: tuple[Group, ...]
    run: tuple[str, ...]
    rows: tuple[LayerRow, ...]
    no_layers: str
    """Why there is no ledger."""
    pictures: Pictures
    skipped: Mapping[str, Sequence[Skipped]]
    """What is needed → the checks that need it."""
    compared: Compared | None
    """None: an audit of one artifact."""

    @property
    def rules(self) -> tuple[str, ...]:
        """Ids of the rules that found something."""
        return tuple(finding.rule for finding in self.audit.findings)

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the artifact that the ledger names."""
        return tuple(dict.fromkeys(row.part for row in self.rows))

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of norm layers in the ledger."""
        return tuple(dict.fromkeys(row.kind for row in self.rows))

    @property
    def states(self) -> tuple[str, ...]:
        """What is saved of the layers in the ledger."""
        return tuple(dict.fromkeys(row.state for row in self.rows))

    @property
    def assumes_momentum(self) -> bool:
        """Whether a share of initial values rests on PyTorch's default."""
        return any(row.residual is not None and row.assumed for row in self.rows)

    @property
    def weight(self) -> int:
        """Sorts artifacts by what was found, worst last."""
        severities = [finding.severity for finding in self.audit.open_findings]
        return sum(10 ** (6 * (severity - 1)) for severity in severities)

    def requires(self, question: Question) -> bool:
        """Whether this verdict has to pass."""
        return question in self.audit.required


def artifact_section(audit: Audit, position: int, name: str, *, with_pictures: bool) -> ArtifactSection:
    """The section of the audit at this position of the report."""
    id = f"a{position + 1}"
    rows = layer_rows(audit)
    accepted = [finding for finding in audit.findings if finding.accepted]
    return ArtifactSection(
        id=id,
        name=name,
        audit=audit,
        about=about(audit),
        is_notable=is_notable(audit),
        alarms=unspoken_errors(audit) if audit.comparison is None else (),
        found=tuple(counts(audit.open_findings)),
        groups=groups(audit, audit.open_findings),
        accepted=groups(audit, accepted),
        run=tuple(text.plain for text in run_texts(audit)) if audit.comparison is None else (),
        rows=tuple(rows),
        no_layers="" if rows else why_no_layers(audit),
        pictures=pictures(audit, rows, id) if with_pictures else Pictures((), ()),
        skipped=by_need(audit.skipped),
        compared=_compared(audit),
    )


def _compared(audit: Audit) -> Compared | None:
    found = audit.comparison
    if found is None:
        return None
    return Compared(title(audit), is_equal(found), sides(audit), conclusion(found), told(audit), tables(found))
