"""What a worker process does: it waits for pieces of work, does them and answers, until it is told to stop."""

from __future__ import annotations

import faulthandler
import os
import sys
import tempfile
import time
import traceback
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

Piece = dict[str, Any]
"""`name` of the architecture, `task` (`state-dict` or a carrier), `seed`, and what else the task needs."""


def serve(connection: Connection, scratch: str, log: str) -> None:
    """Answer every piece with a record; what a library prints goes to the log."""
    with Path(log).open("a", encoding="utf-8") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
        faulthandler.enable()
        _prepare()
        connection.send({"ready": True})
        while (piece := connection.recv()) is not None:
            with tempfile.TemporaryDirectory(dir=scratch) as folder:
                connection.send(_record(piece, Path(folder)))


def _prepare() -> None:
    import torch
    from zoo import architectures
    from zoo.drawing import draw_in_blocks

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    draw_in_blocks()
    architectures.stay_offline()
    sys.setrecursionlimit(5000)  # torch.jit recurses deeper than 1000 in a net of a thousand modules


def _record(piece: Piece, folder: Path) -> dict[str, Any]:
    print(f"--- {piece['task']} {piece['name']}", flush=True)
    start = time.perf_counter()
    try:
        record = _do(piece, folder)
    except ConnectionError as error:
        record = {"exception": f"cannot be built offline: {error}"}
    except Exception as error:
        traceback.print_exc()
        where = traceback.extract_tb(error.__traceback__)
        ours = any("bnaudit" in frame.filename and "zoo" not in frame.filename for frame in where[-30:])
        record = {"broke": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}", "in_bnaudit": ours}
    return {**record, "took": round(time.perf_counter() - start, 2)}


def _do(piece: Piece, folder: Path) -> dict[str, Any]:
    if piece["task"] == "state-dict":
        from zoo.state_dicts import examine

        return examine(piece["name"], piece["seed"], piece["largest"], folder)
    from zoo.carriers import examine as examine_carrier

    return examine_carrier(piece, folder)
