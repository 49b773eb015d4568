"""Which cells the matrix has: every fault in every architecture that it can be planted in, in every carrier.

Slow carriers take part with a seeded share of their cells, and in at least one for every fault.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from fault_matrix.carriers import CARRIERS
from fault_matrix.judging import targets
from fault_matrix.registry import ARCHITECTURES, FAULTS
from fault_matrix.values import Carrier, Cell, Fault


def all_cells() -> list[Cell]:
    """The whole matrix, healthy cells first. Trains every architecture."""
    return [*healthy_cells(), *(cell for fault in FAULTS.values() for cell in cells_of(fault))]


def healthy_cells() -> Iterator[Cell]:
    """Every architecture in every carrier that can hold it; twice where its design has to be declared."""
    for architecture in ARCHITECTURES.values():
        for carrier in CARRIERS:
            if carrier not in architecture.left_out:
                yield Cell(architecture.name, "", carrier)
                if architecture.designs:
                    yield Cell(architecture.name, "", carrier, intended=True)


def cells_of(fault: Fault) -> Iterator[Cell]:
    """The cells of one fault; designs are declared, so that what is found is the fault alone."""
    fitting = [each for each in ARCHITECTURES.values() if targets(each.name, fault)]
    for carrier in CARRIERS.values():
        cells = [
            Cell(each.name, fault.id, carrier.name, intended=bool(each.designs))
            for each in fitting
            if carrier.name not in each.left_out and (not fault.only or carrier.name in fault.only)
        ]
        yield from _chosen(cells, carrier)


def tenth(cells: list[Cell], of: int = 10, seed: int = 0) -> list[Cell]:
    """A seeded tenth (or another part)."""
    return [cell for cell in cells if _drawn(cell, seed + 1) < 1 / of]


def _chosen(cells: list[Cell], carrier: Carrier) -> list[Cell]:
    ranked = sorted(cells, key=_drawn)
    chosen = {cell for position, cell in enumerate(ranked) if position == 0 or _drawn(cell) < carrier.share}
    return [cell for cell in cells if cell in chosen]


def _drawn(cell: Cell, seed: int = 0) -> float:
    """A number in [0, 1) that is the cell's own."""
    digest = hashlib.sha256("/".join(map(str, (seed, *cell))).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48
