"""The parts of README.md that a command writes, each between its own marks."""

from __future__ import annotations

import re
from pathlib import Path


def write_section(path: Path, name: str, body: str) -> None:
    """Put the body between the marks of this name. Raises LookupError where the file has no such marks."""
    marks = rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)"
    text = path.read_text(encoding="utf-8")
    written, count = re.subn(marks, lambda m: m[1] + body + m[2], text, flags=re.DOTALL)
    if count != 1:
        raise LookupError(f"{path}: {count} sections between <!-- {name} --> and <!-- /{name} -->, not one")
    path.write_text(written, encoding="utf-8")
