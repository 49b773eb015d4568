"""What of a graph is not watched, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from bnaudit.onnx_session.survey import Survey


def remarks(survey: Survey) -> tuple[str, ...]:
    """One for each reason."""
    found = []
    if survey.hidden_norms:
        found.append(f"{_some(survey.hidden_norms, 'norm layer')} inside branches, loops or functions: not measured")
    if survey.hidden_randoms:
        found.append(
            f"{_some(survey.hidden_randoms, 'random operator')} inside branches, loops or functions: not watched"
        )
    return tuple(found)


def _some(names: Sequence[str], what: str) -> str:
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"{what}{'s' if len(names) > 1 else ''} {shown}"
