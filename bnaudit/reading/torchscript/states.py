"""States without attribute names: what a class's own `__getstate__` returned, and C++ classes."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator

from bnaudit.reading.torchscript.code import CodeLibrary
from bnaudit.reading.torchscript.objects import ScriptObject
from bnaudit.reading.torchscript.source import attribute_name

_PACKED = ("quantized.", "rnn.CellParamsBase", "sparse.", "xnnpack.", "mkldnn.", "mkl.", "vulkan.", "metal.")
"""PyTorch's classes for weights packed for a kernel: of convolutions, linear and recurrent layers."""


def name_states(objects: Iterable[ScriptObject], library: CodeLibrary) -> None:
    """Give the values of a tuple state the names that `__setstate__` gives them; report what stays without."""
    custom: Counter[str] = Counter()
    for target in objects:
        if target.is_custom_class:
            custom[target.type_name.removeprefix("__torch__.torch.classes.")] += 1
        elif target.state is not None:
            _name(target, library)
    for name, count in sorted(custom.items()):
        packed = name.startswith(_PACKED)
        what = "weights packed for a kernel are" if packed else "the state of a C++ class is"
        library.report(f"{count} × {name}", f"{what} not read", hides_norms=not packed)


def _name(target: ScriptObject, library: CodeLibrary) -> None:
    code = library.class_code(target.type_name)
    method = code.methods.get("__setstate__") if code is not None else None
    found = list(_assignments(method, target.state or [])) if method is not None else []
    target.attributes.update(found)
    if not found:
        quantized = ".quantized." in target.class_name
        why = f"{target.class_name} saves itself in its own way, without names"
        library.report(target.path or "the root", why, hides_norms=not quantized)


def _assignments(method: ast.FunctionDef, state: list[object]) -> Iterator[tuple[str, object]]:
    """`self.training = (state)[14]`."""
    names = [argument.arg for argument in method.args.args]
    for statement in method.body:
        if len(names) != 2 or not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Subscript):
            continue
        target, value, index = statement.targets[0], statement.value.value, statement.value.slice
        if isinstance(target, ast.Attribute) and isinstance(value, ast.Name) and isinstance(index, ast.Constant):
            position = index.value
            if value.id == names[1] and isinstance(position, int) and 0 <= position < len(state):
                yield attribute_name(target.attr), state[position]
