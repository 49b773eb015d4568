"""Copies of a model's tensors, compared and put back bit for bit.

Batch norm's kernel, `.data` and `.numpy()` write without bumping a tensor's version, so that contents are compared.
Small tensors are compared as one: 5,000 of them cost what five large ones do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from bnaudit.torch_session.digests import digest, has_bits, tensor_digest
from bnaudit.torch_session.places import Held
from bnaudit.torch_session.tensors import bits

_SMALL = 1 << 16
"""Bytes up to which tensors are compared together."""


class HeldTensor:
    """One tensor object: its memory, contents, requires_grad and grad."""

    __slots__ = ("alias", "copy", "grad", "held", "mark", "raw", "requires_grad", "tensor", "version")

    def __init__(self, tensor: torch.Tensor, held: Held) -> None:
        self.tensor = tensor
        self.held = held
        self.requires_grad = tensor.requires_grad
        self.grad = tensor.grad if tensor.is_leaf else None
        self.alias = tensor.detach() if has_bits(tensor) else None
        """Keeps the memory, should `tensor.data` be set to another."""
        self.raw = _raw(self.alias) if self.alias is not None else None
        self.copy: torch.Tensor | None = None
        self.mark: int | None = None
        self.version: int | None = None
        """Of the memory when its contents were last found to be equal."""

    @property
    def bytes(self) -> int:
        """Of its contents, 0 when they are not plain memory."""
        return self.raw.numel() * self.raw.element_size() if self.raw is not None else 0

    def is_bound(self) -> bool:
        """Whether the tensor still has its memory, shape, requires_grad and grad."""
        tensor = self.tensor
        if self.alias is not None and not (tensor.is_set_to(self.alias) and tensor.dtype is self.alias.dtype):
            return False
        return tensor.requires_grad == self.requires_grad and (not tensor.is_leaf or tensor.grad is self.grad)

    def is_equal(self, thorough: bool = True) -> bool:
        """Whether its memory holds what it held; not thorough: a parameter that no operator was told to write does."""
        if self.raw is None:
            return True
        version = None if self.raw.is_inference() else self.raw._version
        if not thorough and self.held.kind == "parameter" and version is not None and version == self.version:
            return True
        equal = torch.equal(self.raw, self.copy) if self.copy is not None else tensor_digest(self.raw) == self.mark
        self.version = version if equal else None
        return equal

    def digest(self) -> int:
        """Of what the tensor holds now."""
        return digest(self.tensor)

    def restore(self) -> bool:
        """Put everything back; False when the contents changed and there is no copy of them."""
        if self.alias is not None and not self.is_bound():
            self.tensor.requires_grad_(False) if self.tensor.is_leaf else None
            if not (self.tensor.is_set_to(self.alias) and self.tensor.dtype is self.alias.dtype):
                self.tensor.data = self.alias
            if self.tensor.is_leaf:
                self.tensor.grad = self.grad
                self.tensor.requires_grad_(self.requires_grad)
        if self.is_equal():
            return True
        if self.copy is None or self.raw is None:
            return False
        with torch.inference_mode(self.raw.is_inference()):
            self.raw.copy_(self.copy)
        return True


def _raw(alias: torch.Tensor) -> torch.Tensor:
    """The memory as integers; that of the whole storage where elements of an expanded tensor share it."""
    shared = any(stride == 0 and size > 1 for size, stride in zip(alias.shape, alias.stride(), strict=True))
    if shared:
        alias = torch.empty(0, dtype=alias.dtype, device=alias.device).set_(alias.untyped_storage())
    return bits(alias.resolve_conj() if alias.is_complex() and not alias.is_conj() else alias)


class HeldTensors:
    """All tensors of one state.

    `copies` are those of another state, shared where the contents are the same: those not in `written`, where that is
    known. Contents of large parameters beyond `limit` bytes in all are only fingerprinted, so that a change is seen and
    cannot be undone.
    """

    def __init__(
        self,
        tensors: Sequence[HeldTensor],
        limit: int | None,
        copies: HeldTensors | None,
        written: Sequence[torch.Tensor] | None = None,
    ) -> None:
        self._all = tensors
        self._large: list[HeldTensor] = []
        self._small: list[tuple[list[HeldTensor], list[torch.Tensor], torch.Tensor]] = []
        known = {} if copies is None else {_memory(entry): entry.copy for entry in copies._large}
        doubtful = None if written is None else {id(tensor) for tensor in written}
        self._sort()
        left = limit
        for entry in self._large:
            assert entry.raw is not None
            copy = known.get(_memory(entry))
            same = doubtful is not None and id(entry.tensor) not in doubtful
            if copy is not None and (same or torch.equal(entry.raw, copy)):
                entry.copy = copy
                entry.version = None if entry.raw.is_inference() else entry.raw._version
            elif left is None or entry.held.kind != "parameter" or entry.bytes <= left:
                entry.copy = entry.raw.clone()
                entry.version = None if entry.raw.is_inference() else entry.raw._version
                left = left - entry.bytes if left is not None and entry.held.kind == "parameter" else left
            else:
                entry.mark = tensor_digest(entry.raw)

    def _sort(self) -> None:
        """Tensors that share their memory exactly are kept once."""
        seen: set[object] = set()
        groups: dict[object, list[HeldTensor]] = {}
        for entry in self._all:
            if entry.raw is None or _memory(entry) in seen:
                continue
            seen.add(_memory(entry))
            if entry.bytes <= _SMALL and entry.raw.is_contiguous() and not entry.raw.is_inference():
                groups.setdefault((entry.raw.dtype, entry.raw.device), []).append(entry)
            else:
                self._large.append(entry)
        for entries in groups.values():
            flat = [entry.raw.view(-1) for entry in entries if entry.raw is not None]
            together = torch.cat(flat)
            for entry, copy in zip(entries, torch.split(together, [view.numel() for view in flat]), strict=True):
                assert entry.raw is not None
                entry.copy = copy.view(entry.raw.shape)
            self._small.append((entries, flat, together))

    @property
    def is_copied(self) -> bool:
        """Whether no tensor is only fingerprinted."""
        return all(entry.copy is not None for entry in self._large)

    def changed(self, thorough: bool = True) -> Iterator[HeldTensor]:
        """Tensors that are not as they were: other memory, other contents, another requires_grad or grad."""
        contents = {id(entry) for entry in self._unequal(thorough)}
        for entry in self._all:
            if id(entry) in contents or not entry.is_bound():
                yield entry

    def _unequal(self, thorough: bool) -> Iterator[HeldTensor]:
        for entries, flat, together in self._small:
            if not torch.equal(torch.cat(flat), together):
                yield from (entry for entry in entries if not entry.is_equal())
        yield from (entry for entry in self._large if not entry.is_equal(thorough))


def _memory(entry: HeldTensor) -> object:
    raw = entry.raw
    assert raw is not None
    return raw.data_ptr(), raw.dtype, raw.shape, raw.stride(), raw.numel() or id(entry)
