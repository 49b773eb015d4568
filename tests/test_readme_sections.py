"""Sections of the README that a command writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from readme_sections import write_section


def test_only_what_is_between_its_marks_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text(
        "# A\n<!-- bench -->\nold\n<!-- /bench -->\n<!-- faults -->\n<!-- /faults -->\nend\n", encoding="utf-8"
    )
    write_section(path, "bench", "new \\1\n")
    write_section(path, "faults", "all found\n")
    assert path.read_text(encoding="utf-8") == (
        "# A\n<!-- bench -->\nnew \\1\n<!-- /bench -->\n<!-- faults -->\nall found\n<!-- /faults -->\nend\n"
    )


def test_a_section_without_marks_is_not_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text("<!-- bench -->\n", encoding="utf-8")
    with pytest.raises(LookupError, match="0 sections between <!-- bench -->"):
        write_section(path, "bench", "new\n")
    assert path.read_text(encoding="utf-8") == "<!-- bench -->\n"
