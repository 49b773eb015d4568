"""The JSON schemas themselves: closed, described, and of one mind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest

NAMES = ("report-1", "artifact-1", "diagnosis-1", "trace-1")
ADDED = ["/$defs/run-production/rounding", "/$defs/run-repeat/after_others"]
"""Fields that came within version 1: a report that was written before has none of them."""


def schema(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(
        files("bnaudit.reports").joinpath(f"{name}.schema.json").read_text(encoding="utf-8")
    )
    return loaded


def objects(node: Any, where: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema of an object in it, with its place; conditions add to one and are none."""
    if isinstance(node, dict):
        if node.get("type") == "object":
            yield where, node
        for key, value in node.items():
            if key not in ("if", "then", "else"):
                yield from objects(value, f"{where}/{key}")
    elif isinstance(node, list):
        for position, value in enumerate(node):
            yield from objects(value, f"{where}/{position}")


def whole(document: dict[str, Any], node: Any) -> Any:
    """The node with what it refers to put in."""
    if isinstance(node, dict):
        if "$ref" in node:
            found = document["$defs"][node["$ref"].removeprefix("#/$defs/")]
            return whole(document, {**found, **{key: value for key, value in node.items() if key != "$ref"}})
        return {key: whole(document, value) for key, value in node.items()}
    return [whole(document, value) for value in node] if isinstance(node, list) else node


@pytest.mark.parametrize("name", NAMES)
def test_no_object_has_unknown_or_missing_fields(name: str) -> None:
    found = list(objects(schema(name)))
    assert len(found) > 5
    optional = []
    for where, node in found:
        if "properties" in node:
            assert node["additionalProperties"] is False, where
            assert set(node["required"]) <= set(node["properties"]), where
            optional += [f"{where}/{field}" for field in node["properties"] if field not in node["required"]]
        else:
            assert isinstance(node["additionalProperties"], dict), where
    assert optional == (ADDED if name == "report-1" else [])


@pytest.mark.parametrize("name", NAMES)
def test_every_field_is_described(name: str) -> None:
    document = schema(name)
    lacking = [
        f"{where}/{field}"
        for where, node in objects(document)
        for field, value in node.get("properties", {}).items()
        if "description" not in value and field != "type"
    ]
    assert lacking == []
    assert document["$id"] == document["properties"]["schema"]["const"]


def test_what_both_call_by_one_name_is_one_thing() -> None:
    report, line = schema("report-1"), schema("artifact-1")
    artifact = report["$defs"]["artifact"]["properties"]
    shared = set(artifact) & set(line["properties"])
    assert {"findings", "verdicts", "limits", "looked", "failed", "exit_code"} <= shared
    # Of what was not audited a line has no verdicts, format, size and threshold.
    for name in shared - {"verdicts", "format", "size", "fail_on"}:
        assert whole(report, artifact[name]) == whole(line, line["properties"][name]), name
    for name in set(report["$defs"]) & set(line["$defs"]):
        assert whole(report, report["$defs"][name]) == whole(line, line["$defs"][name]), name
