"""The convolutions and linear layers of one part of a checkpoint."""

from __future__ import annotations

from bnaudit.comparison import LinearLayer
from bnaudit.description import Carrier, Part
from bnaudit.reading.checkpoints.linear_tensors import linear_tensors
from bnaudit.reading.checkpoints.tally import Tally
from bnaudit.reading.checkpoints.tensor_groups import entries_of
from bnaudit.reading.checkpoints.walk import walk
from bnaudit.reading.tensors.torch_tensors import TorchTensors


def checkpoint_layers(root: object, tensors: TorchTensors, part: Part, name: str, tally: Tally) -> list[LinearLayer]:
    """The layers of the part called `name` in the value `root` of a pickle; `part` is what was read of it.

    Raises CapExceededError when there is more than the tally allows.
    """
    found = walk(root, tensors, tally)
    if part.carrier is not Carrier.MODULE:
        return linear_tensors(entries_of(found.dicts, name), part)
    from bnaudit.reading.modules.linear_modules import linear_modules

    call = next((call for _, path, call in found.modules if ".".join(path) == name), None)
    return linear_modules(call, tensors, part, tally) if call is not None else []
