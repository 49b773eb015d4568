"""`bnaudit init` behind its options: look, write, say what was written."""

from __future__ import annotations

import os
from pathlib import Path

from bnaudit.errors import UsageError
from bnaudit.output import check_writable
from bnaudit.policy.document import OWN, SHARED, nearest_above
from bnaudit.printable import printable
from bnaudit.proposal.artifact_groups import groups
from bnaudit.proposal.factories import factories
from bnaudit.proposal.folder_search import Findings, search
from bnaudit.proposal.settings_text import settings_text
from bnaudit.terminal.amounts import plural


def write_first_settings(folder: Path, output: Path) -> str:
    """Write settings for the models below `folder`, and return what to tell the user.

    Raises UsageError when the file is there already, when pyproject.toml beside it has settings, or when it cannot be
    written.
    """
    where = f"--output {output}"
    check_writable(output, where, OWN)
    if output.exists() or output.is_symlink():
        remedy = "edit it, take it away, or give another --output"
        raise UsageError(f"{output} is there already and is not overwritten", where=where, remedy=remedy)
    _refuse_a_second_file(output)
    found = search(folder)
    root = output.absolute().parent
    grouped = groups(found.models, root)
    text = settings_text(found, grouped, factories(found.sources), root)
    try:
        with output.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        what = f"{output} cannot be written, {error.strerror or type(error).__name__}"
        raise UsageError(what, where=where, remedy="give another --output") from error
    return _told(found, len(grouped), output)


def _refuse_a_second_file(output: Path) -> None:
    if output.name != OWN:
        return
    beside = nearest_above(output.absolute().parent)
    if beside.root == output.absolute().parent and beside.source:
        what = f"{SHARED} has settings already, and one folder has them in one file"
        raise UsageError(what, where=f"--output {output}", remedy="edit [tool.bnaudit] there, or take it away")


def _is_found(output: Path) -> bool:
    """Whether a gate that is started here looks for settings there."""
    folder = Path(os.path.normpath(output.absolute().parent))
    return output.name == OWN and folder in (Path.cwd(), *Path.cwd().parents)


def _told(found: Findings, sections: int, output: Path) -> str:
    written = printable(str(output))
    lines = [f"wrote {written}: {plural(len(found.models), 'model')} in {plural(sections, 'section')}"]
    if found.refused:
        looks = "looks like a model" if len(found.refused) == 1 else "look like models"
        lines.append(f"{plural(len(found.refused), 'file')} {looks} and cannot be audited, see `exclude` in it")
    option = "" if _is_found(output) else f" --config {written}"
    if found.models:
        lines.append("fill in what its comments ask for, then")
        lines.append(f"  bnaudit gate{option} --show-settings    # what is in force")
        lines.append(f"  bnaudit gate{option}                    # audit")
    else:
        lines.append("no model was found below this folder: fill in `paths`")
    return "\n".join(lines) + "\n"
