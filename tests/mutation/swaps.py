"""What stands in for what in a mutant: comparisons, operators, functions and members of enumerations."""

from __future__ import annotations

import ast

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
NAMES = {"any": "all", "all": "any", "min": "max", "max": "min"}
MEMBERS = {
    "Severity": {"ERROR": "WARNING", "WARNING": "ERROR", "NOTE": "WARNING"},
    "Confidence": {"HIGH": "MEDIUM", "MEDIUM": "LOW", "LOW": "MEDIUM"},
    "Outcome": {
        "PASSED": "INCONCLUSIVE",
        "FAILED": "PASSED",
        "INCONCLUSIVE": "PASSED",
        "NOT_CHECKED": "PASSED",
    },
    "Question": {
        "BUFFERS": "EVAL_MODE",
        "EVAL_MODE": "NEIGHBOURS",
        "NEIGHBOURS": "GAP",
        "GAP": "FROZEN",
        "FROZEN": "BUFFERS",
    },
}
