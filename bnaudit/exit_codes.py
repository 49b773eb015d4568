"""From what a command did to the exit code of the process."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

from bnaudit.errors import BnauditError, where_raised
from bnaudit.printable import printable

FAILED = 2
INTERRUPTED = 130


def exit_code(command: Callable[[], int]) -> int:
    """Run a command; a failure, expected or not, becomes one sentence on stderr."""
    # What start-up made stays for good; collect from here on, and seldom: records of a file form no cycles.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()
    try:
        return command()
    except BnauditError as error:
        sys.stderr.write(f"bnaudit: {printable(str(error))}\n")
        return FAILED
    except KeyboardInterrupt:
        sys.stderr.write("bnaudit: interrupted\n")
        return INTERRUPTED
    except BaseException as error:  # a failure of ours, or what the user's code raised beside Exception
        what = f"{where_raised(error)} was not expected: report it, unless it is your own code's"
        sys.stderr.write(f"bnaudit: {printable(' '.join(what.splitlines()))}\n")
        return FAILED
