"""Which module a node of an exported program came from: the exporter's `nn_module_stack`."""

from __future__ import annotations

import re
from typing import NamedTuple

from bnaudit.description import NormKind
from bnaudit.reading.exported.graph import Node
from bnaudit.reading.json_text import text_at
from bnaudit.reading.modules.norm_classes import kind_of_class

_REPEATED_CALL = re.compile(r"@\d+$")


class Module(NamedTuple):
    """The innermost module around a node; "" for both when the exporter noted none."""

    path: str
    """Dotted, as in the state dict."""
    class_name: str
    """Qualified, as the exporter wrote it."""

    @property
    def norm_kind(self) -> NormKind | None:
        """The kind of norm that the class name says, None when it says none."""
        short = self.class_name.rpartition(".")[2].lower()
        return kind_of_class(short) if "norm" in short or "bn" in short else None


def module_of(node: Node) -> Module:
    """The innermost entry of `key,path,class;key,path,class`. Paths of repeated calls end in `@1`, which is dropped."""
    entries = text_at(node.metadata, "nn_module_stack").split(";")
    for entry in reversed(entries):
        words = entry.split(",")
        if len(words) == 3 and not words[1].startswith("_empty_nn_module_stack"):
            path = _REPEATED_CALL.sub("", words[1]).removeprefix("L['self'].").removeprefix("L['self']")
            return Module(path, words[2])
    return Module("", "")


def function_of(node: Node) -> str:
    """The function that the user's code called (`dropout2d`, `scaled_dot_product_attention`), "" when not noted."""
    return text_at(node.metadata, "torch_fn").rpartition(".")[2]
