"""Runs a command and writes its seconds, peak memory in KiB (macOS: bytes) and exit code into a file.

    python -I -S spawn.py RESULT COMMAND…

A child's peak memory starts at the size of the process that starts it. This one is small: nothing is imported.
"""

import os
import sys
import time

begin = time.perf_counter()
pid = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(pid, 0)
seconds = time.perf_counter() - begin
with open(sys.argv[1], "w") as file:  # noqa: PTH123 - pathlib is an import
    file.write(f"{seconds} {usage.ru_maxrss} {os.waitstatus_to_exitcode(status)}")
