"""What PyTorch's exporter notes at each node: the module that it comes from, and the line of the model's code.

Source: `metadata_props` of NodeProto (onnx 1.16, IR version 10) as torch.onnx writes them from PyTorch 2.5 on
(`pkg.torch.onnx.name_scopes`, `pkg.torch.onnx.stack_trace`). The older exporter has the module in the node's name.
"""

from __future__ import annotations

import ast
import re
from itertools import pairwise

import onnx

_SCOPES = "pkg.torch.onnx.name_scopes"
_TRACE = "pkg.torch.onnx.stack_trace"
_LINES = re.compile(r'File "([^"]+)", line (\d+)')
_SEPARATOR = re.compile(r"[/\\]")
_PYTORCH = re.compile(r"[/\\](?:torch|torchvision)[/\\]")


def in_scope(node: onnx.NodeProto, name: str) -> str:
    """`/encoder.0/node_Sub_3`: the name in its module's scope, as the older exporter writes it."""
    if name.startswith("/"):
        return name
    modules = _modules(_noted(node, _SCOPES))
    return "/".join(["", *modules, name]) if modules else name


def source_line(node: onnx.NodeProto) -> str:
    """`net.py:41`, the innermost line that is not PyTorch's own; "" unknown."""
    for path, line in reversed(_LINES.findall(_noted(node, _TRACE))):
        if not _PYTORCH.search(path):
            return f"{_SEPARATOR.split(path)[-1]}:{line}"
    return ""


def _noted(node: onnx.NodeProto, key: str) -> str:
    return next((entry.value for entry in getattr(node, "metadata_props", ()) if entry.key == key), "")


def _modules(scopes: str) -> list[str]:
    """`['', 'encoder', 'encoder.0', 'sub']` → `encoder`, `0`: each within the one before; the last is the operator."""
    try:
        names = ast.literal_eval(scopes) if scopes else []
    except (ValueError, SyntaxError):
        return []
    paths = [name for name in names[:-1] if isinstance(name, str) and name] if isinstance(names, list) else []
    return [path.removeprefix(f"{before}.") for before, path in pairwise(["", *paths])]
