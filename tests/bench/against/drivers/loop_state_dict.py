"""What a careful engineer writes today: load the state dict, loop over it, look at the running statistics.

    python loop_state_dict.py plain|mmap|numpy|safetensors FILE

Prints {"problems": [...]}.
"""

from __future__ import annotations

import json
import sys


def load(how: str, path: str):  # type: ignore[no-untyped-def]
    """Names and tensors; with `numpy` only those of the norm layers, since safetensors can read single ones."""
    if how == "numpy":
        from safetensors import safe_open

        with safe_open(path, framework="numpy") as file:
            names = list(file.keys())
            wanted = [name for name in names if name.endswith(("running_mean", "running_var"))]
            return dict.fromkeys(names) | {name: file.get_tensor(name) for name in wanted}
    if how == "safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    import torch

    return torch.load(path, map_location="cpu", weights_only=True, mmap=how == "mmap")


def problems(state) -> list[str]:  # type: ignore[no-untyped-def]
    """One line for each layer with lost, untouched or impossible statistics."""
    found = []
    for name in state:
        layer, _, last = name.rpartition(".")
        if last == "num_batches_tracked" and f"{layer}.running_var" not in state:
            found.append(f"{layer}: a counter and no running statistics")
        if last != "running_var":
            continue
        mean, variance = state.get(f"{layer}.running_mean"), state[name]
        if mean is None:
            found.append(f"{layer}: no running mean")
            continue
        if not bool(((mean - mean == 0) & (variance - variance == 0)).all()):  # NaN and inf less themselves are NaN
            found.append(f"{layer}: NaN or inf")
        if bool((variance <= 0).any()):
            found.append(f"{layer}: variance not above 0")
        if bool((mean == 0).all()) and bool((variance == 1).all()):
            found.append(f"{layer}: mean 0 and variance 1, never updated")
    return found


if __name__ == "__main__":
    print(json.dumps({"problems": problems(load(*sys.argv[1:]))}))
