"""JSON documents from untrusted files: parsed within the caps, taken apart with checked types."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeAlias

from bnaudit.errors import CapExceededError, MalformedError
from bnaudit.reading.byte_source import ByteSource

JsonObject: TypeAlias = "dict[str, object]"


def parse_json(source: ByteSource, of_pairs: Callable[[list[tuple[str, object]]], object] | None = None) -> object:
    """The whole source as one JSON value. `of_pairs` makes the objects (ValueError: refused); else they are dicts.

    Raises MalformedError when it is no JSON or nested too deeply, CapExceededError above `caps.header_bytes` or
    `caps.json_values`.
    """
    raw = source.read(0, source.size)
    if raw.count(b",") + raw.count(b"[") + raw.count(b"{") > source.caps.json_values:
        raise CapExceededError("a JSON document of too many values", where=source.name, cap="json_values")
    try:
        return json.loads(raw, object_pairs_hook=of_pairs)
    except RecursionError as error:
        raise MalformedError("JSON nested too deeply", where=source.name) from error
    except ValueError as error:  # JSONDecodeError, UnicodeDecodeError, an integer of thousands of digits
        raise MalformedError("not valid JSON", where=f"{source.name}, {str(error)[:120]}") from error


def as_object(value: object, what: str) -> JsonObject:
    """The value as an object. Raises MalformedError naming `what` when it is something else."""
    if not isinstance(value, dict):
        raise MalformedError(f"{what} is not a JSON object")
    return value


def as_list(value: object, what: str) -> list[object]:
    """The value as an array. Raises MalformedError naming `what` when it is something else."""
    if not isinstance(value, list):
        raise MalformedError(f"{what} is not a JSON array")
    return value


def object_at(parent: object, key: str) -> JsonObject:
    """`parent[key]` when both are objects, else an empty object: for fields that a writer may leave out."""
    value = parent.get(key) if isinstance(parent, dict) else None
    return value if isinstance(value, dict) else {}


def list_at(parent: object, key: str) -> list[object]:
    """`parent[key]` when it is an array, else an empty one."""
    value = parent.get(key) if isinstance(parent, dict) else None
    return value if isinstance(value, list) else []


def text_at(parent: object, key: str) -> str:
    """`parent[key]` when it is a string, else an empty one."""
    value = parent.get(key) if isinstance(parent, dict) else None
    return value if isinstance(value, str) else ""
