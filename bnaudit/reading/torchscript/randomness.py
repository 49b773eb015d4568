"""What one operator call draws at random, in eval mode and in training mode."""

from __future__ import annotations

from typing import NamedTuple

from bnaudit.reading.torchscript.operator_call import OperatorCall
from bnaudit.reading.torchscript.sites import Site

_DROPS = {"dropout": "p", "recurrent": "dropout", "attention": "p"}
"""Role -> the argument with the probability."""


class Randomness(NamedTuple):
    """`graph_training` as in ModeDependent: True, it draws in eval mode too; False, in neither; None, it obeys."""

    probability: float | None
    graph_training: bool | None

    def beside(self, other: Randomness) -> Randomness:
        """Both calls in one layer."""
        flags = (self.graph_training, other.graph_training)
        together = True if True in flags else None if None in flags else False
        known = [p for p in (self.probability, other.probability) if p is not None]
        return Randomness(max(known, default=None), together)


def randomness(site: Site, *, in_drop_path: bool) -> Randomness | None:
    """What a call draws; None when it has no mode: another operator, probability 0, one recurrent layer.

    A plain draw (`bernoulli`) is dropping only inside a module that says so.
    """
    role = site.call.signature.role
    if role == "draw":
        return (
            Randomness(None, _fixed(site.in_eval is not None, site.in_training is not None)) if in_drop_path else None
        )
    if role == "rrelu":
        return Randomness(None, _fixed(*(_flag(call) for call in (site.in_eval, site.in_training))))
    if role not in _DROPS or (role == "recurrent" and site.number("num_layers") == 1):
        return None
    argument = _DROPS[role]
    known = [_number(call, argument, role) for call in site.calls]
    if all(probability == 0 for probability in known):
        return None
    active = [_active(call, argument, role) for call in (site.in_eval, site.in_training)]
    return Randomness(max((p for p in known if p is not None), default=None), _fixed(*active))


def _fixed(in_eval: bool | None, in_training: bool | None) -> bool | None:
    if in_eval is None or in_eval:
        return in_eval
    return None if in_training is not False else False


def _active(call: OperatorCall | None, argument: str, role: str) -> bool | None:
    """Whether a call draws; unknown when its probability is."""
    if call is None:
        return False
    probability, switched = _number(call, argument, role), True if role == "attention" else _flag(call)
    if switched is False or probability == 0:
        return False
    return None if switched is None or probability is None else True


def _flag(call: OperatorCall | None) -> bool | None:
    """The training argument; rrelu leaves it out when it is False."""
    if call is None or (call.signature.role == "rrelu" and "training" not in call.arguments):
        return False
    found = call.known("training")
    return found.value if found is not None and isinstance(found.value, bool) else None


def _number(call: OperatorCall, argument: str, role: str) -> float | None:
    if role == "attention" and argument not in call.arguments:
        return 0.0
    found = call.known(argument)
    value = found.value if found is not None else None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
