"""Element types against torch's own names and widths, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bnaudit.errors import UnreadableError
from bnaudit.reading.tensors.element_types import STORAGE_TYPES, element_bytes, raw_type, widen


@pytest.mark.filterwarnings("ignore:TypedStorage")
def test_storage_classes_have_the_dtype_and_width_that_torch_says() -> None:
    for name, dtype in STORAGE_TYPES.items():
        if "Untyped" in name:
            continue
        storage = getattr(torch, name)
        assert str(storage.dtype) == f"torch.{dtype}"
        assert element_bytes(dtype) == torch._utils._element_size(storage.dtype)


def test_float8_by_hand() -> None:
    # OCP FP8: 0x3C is 1.5 in E4M3 (exponent 7 - 7, mantissa 4/8) and 1.0 in E5M2 (exponent 15 - 15, mantissa 0).
    codes = np.array([0x3C, 0x01, 0x80, 0x7E], np.uint8)

    assert widen(codes, "float8_e4m3fn").tolist() == [1.5, 2.0**-9, -0.0, 448.0]
    e5m2 = widen(codes, "float8_e5m2")
    assert e5m2[:3].tolist() == [1.0, 2.0**-16, -0.0] and np.isnan(e5m2[3])


def test_big_endian_bits() -> None:
    raw = np.frombuffer(b"\x3f\x80\x40\x00", np.dtype(raw_type("bfloat16", big_endian=True)))

    assert widen(raw, "bfloat16").tolist() == [1.0, 2.0]


def test_integers_that_do_not_fit_are_unreadable() -> None:
    assert widen(np.array([2**63 - 1], np.uint64), "uint64").tolist() == [2**63 - 1]
    with pytest.raises(UnreadableError):
        widen(np.array([2**63], np.uint64), "uint64")


@pytest.mark.parametrize("dtype", ["complex64", "qint8", "float4_e2m1fn_x2", "unknown", ""])
def test_other_types_are_unreadable(dtype: str) -> None:
    with pytest.raises(UnreadableError):
        raw_type(dtype)
