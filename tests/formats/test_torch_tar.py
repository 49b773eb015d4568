"""The tar layout of PyTorch before 0.2 is recognised and named."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from state_dicts import describe

from bnaudit.errors import NotAuditedError


def tar(path: Path, *members: str) -> Path:
    with tarfile.open(path, "w") as archive:
        for name in members:
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    return path


def test_the_old_layout_is_named_with_what_to_do(tmp_path: Path) -> None:
    path = tar(tmp_path / "old.pth", "sys_info", "pickle", "tensors", "storages")
    with pytest.raises(NotAuditedError, match=r"before 0\.2.*save it again"):
        describe(path)


def test_another_tar_file_is_not_taken_for_it(tmp_path: Path) -> None:
    path = tar(tmp_path / "model.pth.tar", "weights/model.pth")
    with pytest.raises(NotAuditedError, match="unpack"):
        describe(path)
