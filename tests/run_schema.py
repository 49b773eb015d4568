"""The part of the JSON schema that describes runs, made from the values. `python tests/run_schema.py` writes it."""

from __future__ import annotations

import ast
import inspect
import json
import sys
import types
from enum import Enum
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

ROOT = Path(__file__).parent.parent
SCHEMA = ROOT / "bnaudit" / "reports" / "report-1.schema.json"
LINE_SCHEMA = SCHEMA.with_name("artifact-1.schema.json")

if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

import bnaudit.comparison  # noqa: E402
import bnaudit.measurement  # noqa: E402
import bnaudit.session  # noqa: E402
from bnaudit.comparison import Comparison  # noqa: E402
from bnaudit.description import Description, NormLayer, Part  # noqa: E402
from bnaudit.measurement import Measured, Measurement, Production, Repeat, StateChange  # noqa: E402
from bnaudit.records import Record  # noqa: E402
from bnaudit.run_objects import type_name  # noqa: E402

NAMES = {"type": "array", "items": {"type": "string"}}
MODES = {
    "type": "object",
    "description": "Names of the layers that are in training and in eval mode.",
    "properties": {
        "training": {**NAMES, "description": "Those in training mode."},
        "eval": {**NAMES, "description": "Those in eval mode."},
    },
    "required": ["training", "eval"],
    "additionalProperties": False,
}
CONCLUSION = {**NAMES, "description": "What it came to, in sentences, the result first."}
BASELINE: dict[str, Any] = {
    "type": "object",
    "description": "What is trusted.",
    "properties": {
        "path": {"type": "string", "description": "As it was given."},
        "format": {"type": "string", "description": "Name of the format that read it, for people."},
        "size": {"type": "integer", "minimum": 0, "description": "Bytes of all its files."},
        "producer": {"type": ["string", "null"], "description": "What wrote the file, where the file says so."},
    },
    "required": ["path", "format", "size", "producer"],
    "additionalProperties": False,
}
PLAIN: dict[object, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"$ref": "#/$defs/number"},
    Part: MODES,
    NormLayer: {"type": "string"},
    Description: BASELINE,
}
ADDED: dict[type[Record], tuple[str, ...]] = {Production: ("rounding",), Repeat: ("after_others",)}
"""Fields that reports of version 1 which were written earlier lack."""


def kinds() -> list[type[Measurement]]:
    """Every type of measurement, by name."""
    found = [kind for kind in vars(bnaudit.measurement).values() if inspect.isclass(kind)]
    return sorted((k for k in found if issubclass(k, Measurement) and k is not Measurement), key=lambda k: k.__name__)


def definitions() -> dict[str, Any]:
    """`run`, `measurement`, `comparison`, and one definition for every record in them."""
    made: dict[str, Any] = {}
    choices = [_reference(kind, made) for kind in kinds()]
    made["measurement"] = {"oneOf": choices}
    _reference(Measured, made)
    _reference(Comparison, made)
    return dict(sorted(made.items()))


def _reference(kind: type[Record], made: dict[str, Any]) -> dict[str, Any]:
    name = "run" if kind is Measured else type_name(kind)
    name = f"run-{name}" if issubclass(kind, Measurement) else name
    if name not in made:
        made[name] = {}
        made[name].update(_object(kind, made))
    return {"$ref": f"#/$defs/{name}"}


def _object(kind: type[Record], made: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = {"type": {"const": type_name(kind)}} if issubclass(kind, Measurement) else {}
    hints, about = get_type_hints(kind), _field_docs(kind)
    for field in kind._fields:
        by_name = kind is Comparison and hints[field] is Part
        properties[field] = {**(PLAIN[str] if by_name else _schema(hints[field], made))}
        if field in about:
            properties[field]["description"] = about[field]
    if kind is Comparison:
        compared = {**PLAIN[bool], "description": "Whether any number of one could be held against one of the other."}
        properties = {"conclusion": CONCLUSION, "compared": compared, **properties}
    if kind is StateChange:
        properties["digest"] = {"type": "string", "pattern": "^[0-9a-f]{16}$", "description": about["digest"]}
    return {
        "type": "object",
        "description": inspect.getdoc(kind) or "",
        "properties": properties,
        "required": [name for name in properties if name not in ADDED.get(kind, ())],
        "additionalProperties": False,
    }


def _schema(hint: Any, made: dict[str, Any]) -> dict[str, Any]:
    if hint in PLAIN:
        return PLAIN[hint]
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (given,) = [choice for choice in inner if choice is not type(None)]
        return {"anyOf": [_schema(given, made), {"type": "null"}]}
    if origin is tuple and inner[-1] is Ellipsis:
        return {"type": "array", "items": _schema(inner[0], made)}
    if origin is tuple:
        return {
            "type": "array",
            "prefixItems": [_schema(item, made) for item in inner],
            "minItems": len(inner),
            "maxItems": len(inner),
        }
    if issubclass(hint, Enum):
        return {"enum": [member.value for member in hint]}
    if hint is Measurement:
        return {"$ref": "#/$defs/measurement"}
    return _reference(hint, made)


def _field_docs(kind: type[Record]) -> dict[str, str]:
    """The strings below the fields."""
    module = sys.modules[kind.__module__]
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
            pairs = zip(node.body, node.body[1:], strict=False)
            return {
                first.target.id: " ".join(str(ast.literal_eval(second.value)).split())
                for first, second in pairs
                if isinstance(first, ast.AnnAssign)
                and isinstance(first.target, ast.Name)
                and isinstance(second, ast.Expr)
                and isinstance(second.value, ast.Constant)
            }
    raise LookupError(kind)


def written(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with its definitions of runs made anew."""
    reachable = definitions()
    stale = [name for name in schema["$defs"] if name.startswith("run-") and name not in reachable]
    kept = {name: value for name, value in schema["$defs"].items() if name not in stale}
    return {**schema, "$defs": {**kept, **reachable}}


def written_line(schema: dict[str, Any], report: dict[str, Any]) -> dict[str, Any]:
    """The schema of a line of JSON Lines, with what it has of a comparison."""
    whole = report["$defs"]["comparison"]["properties"]
    fields = ("conclusion", "baseline", "baseline_part", "subject_part")
    brief = {
        "type": "object",
        "description": "With what it was compared, and the result.",
        "properties": {field: whole[field] for field in fields},
        "required": list(fields),
        "additionalProperties": False,
    }
    return {**schema, "$defs": {**schema["$defs"], "compared": brief}}


if __name__ == "__main__":
    made_anew = written(json.loads(SCHEMA.read_text(encoding="utf-8")))
    line = written_line(json.loads(LINE_SCHEMA.read_text(encoding="utf-8")), made_anew)
    for path, document in ((SCHEMA, made_anew), (LINE_SCHEMA, line)):
        path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
