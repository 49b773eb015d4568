"""Signs in TorchScript code that batch norms were folded into convolutions."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from bnaudit.description import NormKind, NormLayer
from bnaudit.reading.torchscript.code import CodeLibrary
from bnaudit.reading.torchscript.objects import ScriptObject
from bnaudit.reading.torchscript.sites import Site

_FUSED = "weight_fused_bn"


def folding(
    objects: Sequence[ScriptObject], layers: Iterable[NormLayer], sites: Iterable[Site], library: CodeLibrary
) -> str:
    """The evidence in one sentence; "" when a batch norm is left or nothing points to folding."""
    if any(layer.kind.is_batch or layer.kind is NormKind.UNKNOWN for layer in layers):
        return ""
    convolutions = [site for site in sites if site.call.signature.role == "convolution"]
    if not convolutions:
        return ""
    return _fused_names(objects[0], library) or _identities(objects) or _frozen_with_bias(convolutions)


def _fused_names(root: ScriptObject, library: CodeLibrary) -> str:
    """`torch.jit.optimize_for_inference` names what it made of a weight (`self_stem_0_weight_fused_bn`)."""
    fused = sorted({name for name in _variables(root, library) if _FUSED in name})
    return f"{len(fused)} weights in the code are named like {fused[0]}" if fused else ""


def _variables(root: ScriptObject, library: CodeLibrary) -> Iterator[str]:
    code = library.class_code(root.type_name)
    for method in code.methods.values() if code is not None else ():
        for node in ast.walk(method):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def _identities(objects: Iterable[ScriptObject]) -> str:
    """`fuse_modules` leaves nn.Identity where the norm was."""
    found = [
        target.path
        for target in objects
        if target.short_name == "Identity" and any(word in _last(target.path) for word in ("bn", "norm"))
    ]
    more = f" and {len(found) - 1} more hold" if len(found) > 1 else " holds"
    return f"{found[0]}{more} nn.Identity in place of a norm" if found else ""


def _last(path: str) -> str:
    return path.rpartition(".")[2].lower()


def _frozen_with_bias(convolutions: Sequence[Site]) -> str:
    """Freezing turns weights into constants of the code and folds norms by default: what is left has a bias."""
    for site in convolutions:
        weight = site.stored("weight")
        if weight is None or weight.owner is not None or site.is_absent("bias"):
            return ""
    return (
        f"the code is frozen and calls no batch norm, and all its convolutions ({len(convolutions)}) have a bias, "
        "as folding leaves them"
    )
