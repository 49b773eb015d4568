"""bnaudit beside what people use today: speed, memory, bytes read, forwards, and what each finds. `make bench`.

    python tests/bench/rivals.py                 all of it (about 8 GB of files and 5 GB of environments under .bench/)
    python tests/bench/rivals.py --quick         files of 25 MB only
    python tests/bench/rivals.py --only model    only tools whose name holds this (bnaudit is always there)

Writes .bench/bench.json and, when nothing was left out, tests/bench/rivals.json and the README's section from it.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    tests = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(tests), str(tests.parent)]
    from bench.against.command import main

    sys.exit(main())
