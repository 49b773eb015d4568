"""`bnaudit trace` behind its options: trace the channel, write the page or the JSON, give the exit code."""

from __future__ import annotations

from bnaudit.clean_stdout import stdout_kept_clean
from bnaudit.early_exit import early_exit_told
from bnaudit.output import view, write
from bnaudit.settings import Settings
from bnaudit.tracing.channel import trace


def show(path: str, layer: str, channel: int, format: str, settings: Settings) -> int:
    """Write the trace of one channel to stdout, as `terminal` or `json`; returns the exit code.

    Raises what `bnaudit.tracing.channel.trace` raises.
    """
    with stdout_kept_clean(), early_exit_told():
        found = trace(path, layer, channel, settings)
    if format == "json":
        from bnaudit.json_text import json_text
        from bnaudit.tracing.trace_objects import trace_object

        write(json_text(trace_object(found), indent=2) + "\n")
    else:
        from bnaudit.tracing.page import page

        write(page(found, view().width))
    return 0
