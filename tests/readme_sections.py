"""The parts of README.md that a command writes, each between its own marks."""

from __future__ import annotations

import re
from pathlib import Path


def write_section(path: Path, name: str, body: str) -> None:
    """Put the body between the marks of this name."""
    text = path.read_text(encoding="utf-8")
    marks = rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)"
    path.write_text(re.sub(marks, lambda m: m[1] + body + m[2], text, flags=re.DOTALL), encoding="utf-8")
