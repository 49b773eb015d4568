"""The libraries of trainers are optional, and loaded only by who asks for their callback."""

from __future__ import annotations

import subprocess
import sys

LIBRARIES = ("lightning", "pytorch_lightning", "transformers", "accelerate", "torch")


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_bnaudit_loads_none_of_them() -> None:
    code = f"import sys, bnaudit, bnaudit.integrations; print([n for n in {LIBRARIES!r} if n in sys.modules])"
    assert run(code).strip() == "[]"


ABSENT = """
import sys
from importlib import import_module
sys.modules.update(dict.fromkeys(("lightning", "pytorch_lightning", "transformers")))
for library in ("lightning", "transformers"):
    try:
        import_module(f"bnaudit.integrations.{library}")
    except ImportError as error:
        print(error)
"""


def test_without_the_library_the_error_says_what_to_install() -> None:
    assert run(ABSENT).splitlines() == [
        "lightning is not installed: pip install 'bnaudit[lightning]'",
        "transformers is not installed: pip install 'bnaudit[transformers]'",
    ]
