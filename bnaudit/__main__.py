"""`python -m bnaudit`, and the `bnaudit` script."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line and exit with its code."""
    # Collecting while modules are imported finds nothing and costs a tenth of the start-up time.
    gc.disable()
    from bnaudit.plain_arguments import parse

    plain = parse(sys.argv[1:])
    if plain is None:
        from bnaudit.cli import app

        app(sys.argv[1:])()
        return
    from bnaudit.exit_codes import exit_code
    from bnaudit.inspection import inspect
    from bnaudit.run_options import RunOptions
    from bnaudit.settings import Settings

    settings = Settings(run=RunOptions(static=plain.static))
    sys.exit(exit_code(lambda: inspect(plain.paths, plain.format, settings)))


if __name__ == "__main__":
    main()
