"""Runs scripts where bnaudit cannot be imported: in one process for all tests, which imports torch once."""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO

_LOOP = """
import contextlib, io, json, os, runpy, shutil, sys
import numpy, torch

class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] == 'bnaudit':
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Nowhere())
paths = list(sys.path)
answers = sys.stdout
for line in sys.stdin:
    task = json.loads(line)
    os.chdir(task['folder'])
    sys.path[:] = paths
    sys.modules.pop('net', None)
    torch.manual_seed(67280421310721)  # what a process begins with
    said, code = io.StringIO(), 0
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            runpy.run_path(task['script'], run_name='__main__')
        except SystemExit as stop:
            code = stop.code
    said.getvalue().encode()
    print(json.dumps([code, said.getvalue()]), file=answers, flush=True)
"""


@functools.cache
def _process() -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", _LOOP], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(process.kill)
    return process


def plain(script: Path, *mends: tuple[Path, Path]) -> tuple[list[int], str]:
    """Exit codes and all that was printed, of the script as it is and after files took the places of others."""
    first = _ran(script)
    runs = [first]
    for mended, place in mends:
        shutil.copyfile(mended, place)
        shutil.rmtree(place.parent / "__pycache__", ignore_errors=True)
        runs.append(_ran(script))
    return [code for code, _ in runs], "".join(said for _, said in runs)


def _ran(script: Path) -> tuple[int, str]:
    process = _process()
    _pipe(process.stdin).write(json.dumps({"script": str(script), "folder": str(script.parent.parent)}) + "\n")
    _pipe(process.stdin).flush()
    answer = _pipe(process.stdout).readline()
    assert answer, f"the process ended with {process.wait()}; its stderr says why"
    code, said = json.loads(answer)
    return code, said


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe
