"""To which module and which line of the model's own code an operator belongs."""

from __future__ import annotations

import re
import sys
import sysconfig
import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NamedTuple

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

import bnaudit
from bnaudit.torch_session.module_names import LayerNames, Named

_FOREIGN = tuple(
    str(Path(path)) for path in (torch.__path__[0], bnaudit.__path__[0], sysconfig.get_path("stdlib")) if path
)
_INSTALLED = tuple(str(Path(sysconfig.get_path(name))) for name in ("purelib", "platlib"))
_SEPARATOR = re.compile(r"[/\\]")
_TRACED = re.compile(r'File "([^"]+)", line (\d+)')
_TORCH = re.compile(r"[/\\]torch[/\\](nn|_|functional|fx|export|overrides|utils|ao)")

Pushed = Callable[[torch.nn.Module, tuple[Any, ...]], None]
Popped = Callable[[torch.nn.Module, tuple[Any, ...], Any], None]


class ModuleStack:
    """The modules whose forward runs, outermost first, kept by global hooks: they see modules that nothing registers,
    and leave the fast path of transformers on, unlike hooks on the modules themselves.

    Other threads may use modules at the same time; they are ignored. After the model raised, `modules` stay where it
    did, until something runs again.
    """

    def __init__(self, pushed: Pushed | None = None, popped: Popped | None = None) -> None:
        self._modules: list[torch.nn.Module] = []
        self._raised: list[torch.nn.Module] | None = None
        self._thread = 0
        self._handled: BaseException | None = None
        self._handles: list[Any] = []
        self._pushed = pushed
        self._popped = popped

    def __enter__(self) -> ModuleStack:
        self._thread = threading.get_ident()
        self._handled = sys.exc_info()[1]
        try:
            self._handles.append(register_module_forward_pre_hook(self._push))
            self._handles.append(register_module_forward_hook(self._pop, always_call=True))
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()
        if error is None:
            self._raised = None
            self._modules.clear()
        elif self._raised is None:
            self._raised = list(self._modules)

    @property
    def modules(self) -> list[torch.nn.Module]:
        """Outermost first, after an error those that it left; do not change it."""
        return self._modules if self._raised is None else self._raised

    def running(self) -> list[torch.nn.Module]:
        """The same for an operator that runs: an error before it was caught by the model."""
        self._raised = None
        return self._modules

    def _remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _push(self, module: torch.nn.Module, args: tuple[Any, ...]) -> None:
        if threading.get_ident() == self._thread:
            self._raised = None
            self._modules.append(module)
            if self._pushed is not None:
                self._pushed(module, args)

    def _pop(self, module: torch.nn.Module, args: tuple[Any, ...], result: Any) -> None:
        if threading.get_ident() != self._thread:
            return
        modules = self._modules
        if result is None and self._raised is None and sys.exc_info()[1] not in (None, self._handled):
            self._raised = list(modules)
        if self._popped is not None:
            self._popped(module, args, result)
        if modules and modules[-1] is module:
            modules.pop()
        elif module in modules:  # an interrupt skips the hooks of what it leaves
            while modules.pop() is not module:
                pass


class Origin(NamedTuple):
    """Where an operator was called."""

    module: Named
    source: str


def called_from(names: LayerNames, stack: ModuleStack, entered: FrameType | None, line: bool) -> Origin:
    """The innermost module on the stack and, if `line` is asked for, the innermost line of the model's own code."""
    named = names.innermost(stack.running())
    if names.has_graph:
        node = _graph_node(entered)
        if node is not None:
            return Origin(_of_node(node, named), _source_of_node(node) if line else "")
    return Origin(named, own_line(entered) if line else "")


def own_line(entered: FrameType | None) -> str:
    """`net.py:41`: the innermost frame that is neither PyTorch's nor the standard library's nor ours.

    "" when there is none below `entered`, the frame in which watching began.
    """
    frame: FrameType | None = sys._getframe(1)
    left = False
    while frame is not None and frame is not entered:
        name = frame.f_code.co_filename
        if is_own(name):
            return f"{Path(name).name}:{frame.f_lineno}"
        ours = name.startswith(_FOREIGN[1])
        if ours and left:
            return ""
        left = left or not ours
        frame = frame.f_back
    return ""


def raised_at(trace: TracebackType | None) -> str:
    """The same for an error's traceback."""
    found = ""
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if is_own(name):
            found = f"{Path(name).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


@lru_cache(maxsize=4096)
def is_own(filename: str) -> bool:
    """Whether a file may hold the model's own code: an installed package such as timm may."""
    if filename.startswith("<"):
        return filename.startswith("<ipython")
    if filename.startswith(_FOREIGN[:2]):
        return False
    return filename.startswith(_INSTALLED) or not filename.startswith(_FOREIGN[2])


def _graph_node(entered: FrameType | None) -> torch.fx.Node | None:
    """The node of the innermost fx.GraphModule whose generated line is being executed."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame is not entered:
        code = frame.f_code
        if code.co_filename.startswith("<eval_with_key>"):
            module = frame.f_locals.get("self")
            lines = getattr(module, "_lineno_map", None)
            if isinstance(module, torch.fx.GraphModule) and lines:
                index = lines.get(frame.f_lineno - code.co_firstlineno)
                nodes = list(module.graph.nodes)
                return nodes[index] if index is not None and index < len(nodes) else None
        frame = frame.f_back
    return None


def _of_node(node: torch.fx.Node, otherwise: Named) -> Named:
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return otherwise
    path, owner = list(stack.values())[-1][:2]
    class_name = owner if isinstance(owner, str) else getattr(owner, "__name__", "")
    if not isinstance(path, str):
        return otherwise
    path = path.removeprefix("L['self']").removeprefix("L__self__").removeprefix(".")
    return Named(path, class_name.rpartition(".")[2], False)


def _source_of_node(node: torch.fx.Node) -> str:
    for path, line in reversed(_TRACED.findall(node.meta.get("stack_trace") or "")):
        if not _TORCH.search(path):
            return f"{_SEPARATOR.split(path)[-1]}:{line}"
    return ""
