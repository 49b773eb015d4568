"""The tensors of an exported program by fully qualified name, read once and only when a norm layer asks."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from bnaudit.description import Gap, StoredTensor
from bnaudit.reading.exported.graph import Scope
from bnaudit.reading.exported.sizes import dtype_name
from bnaudit.reading.tensors.tensor_refs import TensorRef, stored


class ProgramState:
    """Parameters, buffers and constants. What cannot be read becomes a Gap."""

    __slots__ = ("_read", "_refs", "gaps")

    def __init__(self, refs: Mapping[str, TensorRef]) -> None:
        self._refs = refs
        self._read: dict[str, StoredTensor] = {}
        self.gaps: list[Gap] = []

    def __contains__(self, name: object) -> bool:
        return name in self._refs

    def __len__(self) -> int:
        return len(self._refs)

    def stored(self, name: str | None) -> StoredTensor | None:
        """The tensor of that name with its values, None when there is none."""
        ref = self._refs.get(name) if name is not None else None
        if name is None or ref is None:
            return None
        if name not in self._read:
            self._read[name], why = stored(name, ref)
            if why:
                self.gaps.append(Gap(where=name, why=why))
        return self._read[name]

    def computed(self, value: str, scope: Scope) -> StoredTensor:
        """A running statistic that the graph computes, so that its values are in no file."""
        why = "it is computed in the graph from other values"
        self.gaps.append(Gap(where=value, why=why, hides_norms=False))
        sizes = scope.sizes(value) or ()
        shape = tuple(size.value for size in sizes if isinstance(size.value, int))
        return StoredTensor(
            name=value,
            dtype=dtype_name(scope.scalar_type(value)),
            shape=shape if len(shape) == len(sizes) else (),
            values=None,
            absence=why,
            unread=True,
        )

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor that is there, without reading it."""
        return self._refs[name].shape

    @property
    def floating_dtypes(self) -> tuple[str, ...]:
        """The floating dtypes of all tensors, sorted."""
        return tuple(sorted({ref.dtype for ref in self._refs.values() if "float" in ref.dtype}))

    def count_trainable(self, outside: Collection[str]) -> tuple[int | None, int | None]:
        """Parameters that require gradients and that do not, leaving out the names given; None: it is not said."""
        flags = [ref.requires_grad for name, ref in self._refs.items() if ref.is_parameter and name not in outside]
        if None in flags:
            return None, None
        return sum(flag is True for flag in flags), sum(flag is False for flag in flags)
