"""One channel of one norm layer, worked through for a person: `bnaudit trace`.

What it received, which statistics its mode selects, what is saved for it, and every number of the formula on the way
from an activation to the output, so that a pocket calculator gives the same.
"""
