"""Layer names across files: what wrappers put in front, and which layers stand at the same place in sibling blocks."""

from __future__ import annotations

WRAPPER_PREFIXES = ("module.", "_orig_mod.", "model.")
"""What DataParallel, DistributedDataParallel and AveragedModel, torch.compile, and Lightning put in front."""


def strip_wrappers(name: str) -> str:
    """The name without wrapper prefixes, however many there are; the last path component always stays."""
    while True:
        shorter = next((name[len(prefix) :] for prefix in WRAPPER_PREFIXES if name.startswith(prefix)), None)
        if not shorter:
            return name
        name = shorter


def sibling_key(name: str) -> str:
    """Equal for layers at the same place in sibling blocks: `layer1.0.bn1` and `layer1.2.bn1` give `layer1.#.bn1`."""
    return ".".join("#" if piece.isdecimal() else piece for piece in name.split("."))
