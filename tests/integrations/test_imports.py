"""The libraries of trainers are optional, and loaded only by who asks for their callback."""

from __future__ import annotations

import subprocess
import sys

import pytest

LIBRARIES = ("lightning", "pytorch_lightning", "transformers", "accelerate", "torch")


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_bnaudit_loads_none_of_them() -> None:
    code = f"import sys, bnaudit, bnaudit.integrations; print([n for n in {LIBRARIES!r} if n in sys.modules])"
    assert run(code).strip() == "[]"


@pytest.mark.parametrize("library", ["lightning", "transformers"])
def test_without_the_library_the_error_says_what_to_install(library: str) -> None:
    absent = "; ".join(f"sys.modules[{name!r}] = None" for name in LIBRARIES[:3])
    last = run(f"import sys; {absent}; import bnaudit.integrations.{library}").strip().splitlines()[-1]
    assert last == f"ImportError: {library} is not installed: pip install 'bnaudit[{library}]'"
