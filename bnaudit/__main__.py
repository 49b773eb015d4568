"""`python -m bnaudit`, and the `bnaudit` script."""

from __future__ import annotations

import gc


def main() -> None:
    """Run the command line and exit with its code."""
    # Collecting while modules are imported finds nothing and costs a tenth of the start-up time.
    gc.disable()
    from bnaudit.cli import run

    run()


if __name__ == "__main__":
    main()
