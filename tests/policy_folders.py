"""A folder with settings, as tests of the policy want it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path

from bnaudit.policy import Policy, load

TODAY = date(2026, 6, 15)
NET = "def build(width=8):\n    raise NotImplementedError\n"


def folder_with(folder: Path, settings: str, files: tuple[str, ...] = ("models/a.pt", "models/b.pt", "net.py")) -> Path:
    """The folder with bnaudit.toml and files that are there and hold nothing to audit."""
    for name in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(NET if name.endswith(".py") else "x", encoding="utf-8")
    (folder / "bnaudit.toml").write_text(settings, encoding="utf-8")
    return folder


def policy_of(folder: Path, settings: str, typed: Mapping[str, object] | None = None) -> Policy:
    """The policy of such a folder."""
    return load(None, folder_with(folder, settings), typed or {}, today=TODAY)
