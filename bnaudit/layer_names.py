"""What layer names say apart from what they name: wrappers around the model, and the same place in another block."""

from __future__ import annotations

from functools import lru_cache

_LEADING = frozenset({"module", "model", "_orig_mod"})
_ANYWHERE = frozenset({"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})


@lru_cache(maxsize=16384)
def strip_wrappers(name: str) -> str:
    """The name without what wrappers add: `module.` (DataParallel), `_orig_mod.` (torch.compile), `model.` in front,
    and anywhere those of torch.compile, FSDP and activation checkpointing.

    `module.model.layer1._orig_mod.bn1` -> `layer1.bn1`; a wrapped root (`module`) -> "".
    """
    parts = name.split(".")
    start = 0
    while start < len(parts) and parts[start] in _LEADING:
        start += 1
    return ".".join(part for part in parts[start:] if part not in _ANYWHERE)


def module_of_node(node: str) -> str:
    """The module that PyTorch's exporters to ONNX write into a node's name; "" for another's, or the root's own node.

    `/layer1/layer1.0/bn1/BatchNormalization` -> `layer1.0.bn1`: a container's child repeats the container.
    """
    if not node.startswith("/"):
        return ""
    steps: list[str] = []
    for step in node.split("/")[1:-1]:
        if steps and step.startswith(f"{steps[-1]}."):
            steps[-1] = step
        else:
            steps.append(step)
    return ".".join(steps)


def spellings(name: str) -> frozenset[str]:
    """All names that patterns may mean a layer or module by: as it is, without wrappers, a node by its module."""
    module = module_of_node(name)
    return frozenset((name, strip_wrappers(name), *((module, strip_wrappers(module)) if module else ())))


@lru_cache(maxsize=16384)
def sibling_key(name: str) -> str:
    """Equal for layers at the same place in sibling blocks: `layer1.0.bn1` and `layer4.2.bn1`, not `layer1.0.bn2`.

    The numbers that end a part of the path are dropped, except in the last part, which names the place.
    """
    *blocks, place = strip_wrappers(name).split(".")
    return ".".join([*(block.rstrip("0123456789") + "#" if block[-1:].isdigit() else block for block in blocks), place])
