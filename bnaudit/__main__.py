"""`python -m bnaudit`."""

from __future__ import annotations

from bnaudit.cli import main

if __name__ == "__main__":
    main()
