"""The name that was probably meant, as the remedy of an error."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], otherwise: str, cutoff: float = 0.6) -> str:
    """`did you mean …?` with the known name that is most like this one, or something else to do.

    `cutoff`: the least likeness, from 0 to 1, as `difflib.get_close_matches` counts it.
    """
    from difflib import get_close_matches

    close = get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f"did you mean {close[0]}?" if close else otherwise
