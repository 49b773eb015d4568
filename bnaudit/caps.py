"""The caps that keep reading a hostile file within bounded time and memory."""

from __future__ import annotations

from bnaudit.records import Record


class Caps(Record):
    """Upper limits of one reading. The defaults leave room for the largest published checkpoints."""

    pickle_opcodes: int = 10_000_000
    """Opcodes executed over all pickles of one file (up to half a microsecond each)."""
    pickle_memory: int = 448 << 20
    """Bytes of memory that the values of all pickles of one file take, estimated from above."""
    pickle_objects: int = 1_000_000
    """Objects of one checkpoint that are looked into for models; tensors and modules count for several."""
    norm_layers: int = 30_000
    """Norm layers of one checkpoint; a thousand take about a tenth of a second."""
    pickle_depth: int = 2_000
    """Containers nested in one another."""
    value_bytes: int = 64 << 20
    """Bytes of one tensor or string that are read into memory."""
    tensor_bytes: int = 1 << 30
    """Bytes of all norm tensors of one file together, as they are stored and as they are kept: 8 for each value."""
    header_bytes: int = 256 << 20
    """Bytes of one header: a JSON document, a directory, a pickle, a code file, after decompression."""
    json_values: int = 5_000_000
    """Values of one JSON document; each takes up to a few hundred bytes of memory, however short its text."""
    archive_members: int = 2_000_000
    """Entries of one archive directory."""
    graph_nodes: int = 5_000_000
    """Nodes, attributes and initializers of one graph."""
