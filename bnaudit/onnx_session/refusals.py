"""What onnxruntime says when it cannot load or run a graph, as one sentence of ours."""

from __future__ import annotations

import re

from bnaudit.session import NotPossibleError, RunError

_HEAD = re.compile(r"^\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ")
_SOURCE = re.compile(r"\S*/\S+\.(?:cc|h|cu):\d+ (?:[\w:<>~*&, ]+\([^)]*\)(?: const)? )?")
_LOAD = re.compile(r"^Load model from .*? failed:")
_RUNNING = re.compile(
    r"Non-zero status code returned while running (\S+) node\. Name:'([^']*)' Status Message: (.*)", re.S
)
_NODE = re.compile(r'In Node, \("([^"]*)", (\w+), "([^"]*)"')
_OTHER_NODE = re.compile(r"Node \(([^)]*)\) Op \(([^)]*)\)")
_UNKNOWN_OPERATOR = re.compile(r"No opset import for domain|No Op registered for")
_MISSING_KERNEL = re.compile(
    r"(?:Could not find an implementation|Failed to find kernel) for ([\w.:]+)\(\d+\) "
    r"(?:node with name |\(node:)'([^']*)'"
)
_UNREGISTERED = re.compile(r"([\w.]*):(\w+)\(-?\d+\) is not a registered function/op")
_TOO_NEW = re.compile(r"Unsupported model IR version|is under development|exceeds the max|max supported IR version")


class LacksKernelError(NotPossibleError):
    """The graph is valid, and onnxruntime has no implementation of one of its operators."""


def not_loaded(error: Exception) -> NotPossibleError:
    """Why no session could be made, and what to do."""
    message = _plain(str(error))
    missing = _MISSING_KERNEL.search(message)
    if missing:
        what = f"onnxruntime has no implementation of {missing[1]}"
        return LacksKernelError(what, where=_node(missing[2], missing[1]), remedy="give one with --custom-ops lib.so")
    unknown = _UNREGISTERED.search(message)
    if unknown:
        what = f"onnxruntime does not know the operator {unknown[1]}.{unknown[2]}".replace(" .", " ")
        return NotPossibleError(what, remedy="give its library with --custom-ops lib.so")
    node = _NODE.search(message)
    if node and _UNKNOWN_OPERATOR.search(message):
        operator = f"{node[3]}.{node[2]}" if node[3] else node[2]
        what = f"onnxruntime does not know the operator {operator}"
        return NotPossibleError(what, where=_node(node[1], node[2]), remedy="give its library with --custom-ops lib.so")
    if _TOO_NEW.search(message):
        return NotPossibleError(
            "the graph is newer than this onnxruntime", where=message, remedy="install a newer onnxruntime"
        )
    where = node or _OTHER_NODE.search(message)
    return NotPossibleError(
        f"onnxruntime refuses the graph: {message}",
        where=_node(where[1], where[2]) if where else "",
        remedy="check it with onnx.checker.check_model",
    )


def not_run(error: Exception) -> RunError:
    """What a run raised, with the node."""
    message = _plain(str(error))
    running = _RUNNING.search(message)
    if running:
        return RunError(f"the graph fails as it runs: {_plain(running[3])}", where=_node(running[2], running[1]))
    return RunError(f"the graph cannot be run with these inputs: {message}")


def _node(name: str, operator: str) -> str:
    return f"{operator} node {name}" if name else f"a {operator} node without a name"


def _plain(message: str) -> str:
    """Without the parts that speak of onnxruntime's own code."""
    text = _HEAD.sub("", message.strip())
    text = _LOAD.sub("", text)
    text = _SOURCE.sub("", text)
    return " ".join(text.split()).rstrip(".")
