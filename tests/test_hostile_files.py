"""Every hostile file is answered within seconds and two gigabytes, whatever it claims to hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hostile_files import ATTACKS, Attack
from subjects import SAMPLES

pytest.importorskip("resource", reason="limits on memory need POSIX")

SECONDS = 60
GIGABYTES = 2
AUDIT = f"""
import resource, sys
if sys.platform == "linux":
    resource.setrlimit(resource.RLIMIT_AS, ({GIGABYTES} << 30, {GIGABYTES} << 30))
from bnaudit.__main__ import main
sys.argv = ["bnaudit", "inspect", "--format", "json", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack.file for attack in ATTACKS])
def test_a_hostile_file_is_answered_in_time_and_in_words(attack: Attack, tmp_path: Path) -> None:
    path = tmp_path / attack.file
    attack.write(path)
    done = subprocess.run(
        [sys.executable, "-c", AUDIT, str(path)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(SAMPLES.parent), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        timeout=SECONDS,
        check=False,
    )
    assert done.stderr == ""
    report = json.loads(done.stdout)
    # 3 where the only norm layer is the hostile one: nothing was checked.
    assert done.returncode == report["exit_code"]
    whys = [entry["reason"] for entry in report["not_audited"]]
    for artifact in report["artifacts"]:
        assert artifact["failed"] == []
        whys += [gap["why"] for gap in artifact["gaps"]]
    assert all("internal failure" not in why and len(why.splitlines()) == 1 for why in whys)
    assert not attack.said or any(attack.said in why for why in whys), whys
    assert report["artifacts"] or report["not_audited"]
