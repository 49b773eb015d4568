"""From the tensors of a torch.distributed.checkpoint to its state dicts, without the optimizer's."""

from __future__ import annotations

from bnaudit.reading.checkpoints.optimizer_state import names_optimizer
from bnaudit.reading.checkpoints.walk import TensorDict
from bnaudit.reading.folders.distributed_metadata import Spread
from bnaudit.reading.folders.distributed_tensors import PieceFiles, SpreadTensor


def tensor_dicts(tensors: list[Spread], files: PieceFiles) -> tuple[list[TensorDict], bool]:
    """The dicts that were saved, in file order, and whether an optimizer was among them.

    `get_state_dict` flattens the optimizer too (`optim.state.layer.weight.exp_avg`), so names count beside keys.
    """
    dicts: dict[tuple[str, ...], TensorDict] = {}
    has_optimizer = False
    for spread in tensors:
        if _is_optimizer(spread.path):
            has_optimizer = True
            continue
        place, name = spread.path[:-1], spread.path[-1]
        held = dicts.setdefault(place, TensorDict(len(dicts), place, None, []))
        held.entries.append((name, SpreadTensor(spread, files)))
    return list(dicts.values()), has_optimizer


def _is_optimizer(path: tuple[str, ...]) -> bool:
    if any(names_optimizer(key) for key in path[:-1]):
        return True
    first = path[-1].split(".", 1)[0] if len(path) == 1 else path[0]
    return names_optimizer(first) or first == "state"
