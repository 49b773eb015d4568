"""Jinja2 as the page needs it: everything escaped, and every text from a file made printable first."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from bnaudit.errors import UsageError
from bnaudit.printable import printable
from bnaudit.terminal.amounts import number, plural, share

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"
NEEDED = ("jinja2", "matplotlib")


def not_there(name: str) -> UsageError:
    """That one of them is not installed, and how to get it."""
    return UsageError(f"the html report needs {name}, which is not installed", remedy="pip install 'bnaudit[html]'")


@cache
def environment() -> Environment:
    """The environment of the templates. Raises UsageError when Jinja2 or matplotlib is not installed."""
    try:
        import jinja2
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as error:
        raise not_there(error.name or "") from error
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    made.filters.update(number=number, share=share, plural=plural)
    return made


def _shown(value: object) -> object:
    """What an expression of a template writes: Markup as it is, other text without characters that are not shown."""
    return value if hasattr(value, "__html__") else printable(str(value))
