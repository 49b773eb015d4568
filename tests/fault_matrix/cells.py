"""Which cells the matrix has: a seeded choice of faults × architectures × carriers, the slow carriers more seldom.

Every fault is tried at least once in every carrier that it is meant for, and every healthy net in every carrier.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from fault_matrix.carriers import CARRIERS
from fault_matrix.judging import targets
from fault_matrix.registry import ARCHITECTURES, FAULTS
from fault_matrix.values import Cell


def all_cells(density: float = 1.0) -> list[Cell]:
    """The whole matrix: the share of every carrier times `density`, and each fault at least once in each carrier.

    Trains every architecture.
    """
    possible = [cell for name in ARCHITECTURES for cell in possible_cells(name)]
    first: dict[tuple[str, str], Cell] = {}
    for cell in sorted(possible, key=drawn):
        first.setdefault((cell.fault, cell.carrier), cell)
    chosen = set(first.values()) | set(share_of(possible, density))
    return [cell for cell in possible if cell in chosen]


def share_of(cells: Iterable[Cell], density: float) -> list[Cell]:
    """The cells that are drawn for this density; those of a lower one are among them."""
    return [cell for cell in cells if drawn(cell) < _share(cell) * density]


def possible_cells(architecture: str) -> Iterator[Cell]:
    """Every cell of an architecture: the healthy net, declared and not, and all faults that can be planted in it.

    Under a fault its designs are declared, so that what is found is the fault alone.
    """
    net = ARCHITECTURES[architecture]
    carriers = [name for name in CARRIERS if name not in net.left_out]
    for intended in (False, True) if net.designs else (False,):
        yield from (Cell(net.name, "", carrier, intended) for carrier in carriers)
    for fault in FAULTS.values():
        if fault.baseline not in net.left_out and targets(net.name, fault):
            meant = [carrier for carrier in carriers if not fault.only or carrier in fault.only]
            yield from (Cell(net.name, fault.id, carrier, intended=bool(net.designs)) for carrier in meant)


def _share(cell: Cell) -> float:
    return CARRIERS[cell.carrier].share if cell.fault else 1.0


def drawn(cell: Cell) -> float:
    """A number in [0, 1) that is the cell's own, the same in every run."""
    digest = hashlib.sha256("/".join(map(str, cell)).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48
