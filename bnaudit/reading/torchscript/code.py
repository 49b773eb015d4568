"""The code of a TorchScript archive: classes and functions by their qualified names, parsed when asked for."""

from __future__ import annotations

import ast

from bnaudit.caps import Caps
from bnaudit.description import Gap
from bnaudit.errors import CapExceededError, MalformedError, UnreadableError
from bnaudit.reading.torchscript.source import attribute_name, definitions, parse_definition
from bnaudit.reading.zip_directory import ZipDirectory

_MOST_GAPS = 100
_SHARE = 64
"""Code may have this part of `caps.header_bytes` (4 MB by default; ResNet-152 has 0.6 MB): its syntax tree takes some
150 times as much memory as its text."""


class ClassCode:
    """What the code says of one class.

    `constants` are the `Final` attributes, whose values stand in the code and not in data.pkl; `written` are the
    attributes that some method assigns, whose stored values may change.
    """

    __slots__ = ("buffers", "constants", "methods", "parameters", "written")

    def __init__(self, node: ast.ClassDef) -> None:
        self.parameters: frozenset[str] = frozenset()
        self.buffers: frozenset[str] = frozenset()
        self.constants: dict[str, object] = {}
        self.methods: dict[str, ast.FunctionDef] = {}
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef):
                self.methods.setdefault(statement.name, statement)
            elif isinstance(statement, ast.Assign):
                self._names(statement)
            elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                self._constant(statement.target.id, statement)
        self.written = frozenset(_written(self.methods))

    def _names(self, statement: ast.Assign) -> None:
        target = statement.targets[0]
        if isinstance(target, ast.Name) and isinstance(statement.value, ast.List):
            names = [element.value for element in statement.value.elts if isinstance(element, ast.Constant)]
            listed = frozenset(name for name in names if isinstance(name, str))
            if target.id == "__parameters__":
                self.parameters = listed
            elif target.id == "__buffers__":
                self.buffers = listed

    def _constant(self, name: str, statement: ast.AnnAssign) -> None:
        if statement.value is None:
            return
        try:
            self.constants[attribute_name(name)] = ast.literal_eval(statement.value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return  # no literal (`inf`, a device): the attribute stays unknown


def _written(methods: dict[str, ast.FunctionDef]) -> set[str]:
    """`__setstate__` writes what data.pkl stores and changes nothing afterwards."""
    found: set[str] = set()
    for name, method in methods.items():
        if name != "__setstate__":
            for node in ast.walk(method):
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                    found.add(attribute_name(node.attr))
    return found


class CodeLibrary:
    """The `code/` folder of an archive. `gaps` grows with every definition that is wanted and cannot be read."""

    def __init__(self, members: ZipDirectory, prefix: str, caps: Caps) -> None:
        self.gaps: list[Gap] = []
        self._known: set[Gap] = set()
        self._members = members
        self._folder = f"{prefix}code/"
        self._texts: dict[str, dict[str, str]] = {}
        self._classes: dict[str, ClassCode | None] = {}
        self._functions: dict[str, ast.FunctionDef | None] = {}
        self._unread: set[str] = set()
        self._bytes = 0
        self._limit = caps.header_bytes // _SHARE
        self.is_there = any(name.startswith(self._folder) and name.endswith(".py") for name in members.names)

    def class_code(self, qualified: str) -> ClassCode | None:
        """The class `__torch__.torch.nn.modules.batchnorm.BatchNorm2d`; None: not there or not readable."""
        if qualified not in self._classes:
            node = self._definition(qualified)
            self._classes[qualified] = ClassCode(node) if isinstance(node, ast.ClassDef) else None
        return self._classes[qualified]

    def require(self, qualified: str) -> None:
        """Report a class or function whose code is wanted and not there."""
        if self.is_there and not self._has(qualified):
            self.report(qualified, "its code is not in the archive")

    def function(self, qualified: str) -> ast.FunctionDef | None:
        """The function `__torch__.torch.nn.functional.batch_norm`; None: not there or not readable."""
        if qualified not in self._functions:
            node = self._definition(qualified)
            self._functions[qualified] = node if isinstance(node, ast.FunctionDef) else None
        return self._functions[qualified]

    def report(self, where: str, why: str, *, hides_norms: bool = True) -> None:
        """Record that something is not read, once; beyond 100 gaps only that there are more."""
        gap = Gap(where=where, why=why, hides_norms=hides_norms)
        if gap in self._known or len(self.gaps) > _MOST_GAPS:
            return
        if len(self.gaps) == _MOST_GAPS:
            gap = Gap(where="code/", why=f"more than {_MOST_GAPS} parts cannot be read; the others are not listed")
        self._known.add(gap)
        self.gaps.append(gap)

    def _has(self, qualified: str) -> bool:
        """A member of a class (`__torch__.Color.RED`, `__torch__.Pair.__new__`) is there with the class."""
        module, _, name = qualified.rpartition(".")
        outer, _, owner = module.rpartition(".")
        there = name in self._file(module) or owner in self._file(outer)
        return there or not self._unread.isdisjoint((module, outer))

    def _definition(self, qualified: str) -> ast.ClassDef | ast.FunctionDef | None:
        module, _, name = qualified.rpartition(".")
        text = self._file(module).get(name)
        if text is None:
            return None
        try:
            return parse_definition(text, qualified)
        except MalformedError as error:
            self.report(qualified, str(error))
            return None

    def _file(self, module: str) -> dict[str, str]:
        if module not in self._texts:
            self._texts[module] = self._read(module)
        return self._texts[module]

    def _read(self, module: str) -> dict[str, str]:
        member = f"{self._folder}{module.replace('.', '/')}.py"
        if member not in self._members:
            return {}
        try:
            self._bytes += self._members.size(member)
            if self._bytes > self._limit:
                raise CapExceededError(f"code of more than {self._limit} bytes", where=member, cap="header_bytes")
            source = self._members.open(member)
            return definitions(source.read(0, source.size).decode("utf-8"))
        except (UnreadableError, UnicodeDecodeError) as error:
            why = str(error) if isinstance(error, UnreadableError) else "it is not UTF-8 text"
            self.report(member, why)
            self._unread.add(module)
            return {}
