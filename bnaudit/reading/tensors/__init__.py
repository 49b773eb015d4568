"""Tensors that are known and not yet read: storages, strides, element types, NumPy arrays."""
