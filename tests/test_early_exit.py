"""A model's code that leaves by the back door is no pass."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from subjects import SAMPLES

from bnaudit.early_exit import early_exit_told

CODE = "import os\n\ndef build():\n    os._exit(0)\n"


@pytest.mark.parametrize("command", ["gate", "inspect"])
def test_code_that_ends_the_process_is_told_and_exits_2(command: str, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(CODE, encoding="utf-8")
    model = Path(SAMPLES, "healthy/state_dict.pt").resolve()
    line = [sys.executable, "-m", "bnaudit", command, str(model), "--model", "net.py:build"]
    done = subprocess.run(line, capture_output=True, text=True, encoding="utf-8", cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "bnaudit: the model's code ended the process (os._exit(0)): take that out of it\n"


def test_it_is_as_before_afterwards_also_when_something_is_raised() -> None:
    leave = os._exit
    with pytest.raises(KeyError), early_exit_told():
        assert os._exit is not leave
        raise KeyError
    assert os._exit is leave


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_forked_process_ends_as_it_likes() -> None:
    code = (
        "import os\n"
        "from bnaudit.early_exit import early_exit_told\n"
        "with early_exit_told():\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        os._exit(7)\n"
        "    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("7\n", "")
