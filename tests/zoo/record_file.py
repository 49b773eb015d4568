"""The results so far, one JSON line per piece: an interrupted run goes on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Record = dict[str, Any]


class RecordFile:
    """Lines are only ever added. A last line that was cut off is dropped, and its piece is done again."""

    def __init__(self, path: Path, key: dict[str, Any], fresh: bool = False) -> None:
        """`key` names what the records depend on (seed, versions): those of another key are not used."""
        self.path, self.key = path, key
        path.parent.mkdir(parents=True, exist_ok=True)
        if fresh:
            path.unlink(missing_ok=True)
        self.records = self._read()

    def _read(self) -> dict[tuple[str, str], Record]:
        if not self.path.exists():
            return {}
        lines = self.path.read_text(encoding="utf-8").split("\n")
        whole = lines[:-1]
        if lines[-1]:
            self.path.write_text("".join(f"{line}\n" for line in whole), encoding="utf-8")
        records = (json.loads(line) for line in whole if line)
        return {(r["name"], r["task"]): r for r in records if r["key"] == self.key}

    def add(self, name: str, task: str, record: Record) -> None:
        """Keep a record; it is on the disk when this returns."""
        line = {"name": name, "task": task, "key": self.key, **record}
        self.records[name, task] = line
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")

    def forget(self, wrong: Callable[[Record], bool]) -> None:
        """Leave out the records that are wrong, so that their pieces are done again; later lines go before earlier."""
        self.records = {place: record for place, record in self.records.items() if not wrong(record)}
