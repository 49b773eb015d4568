"""The options of `bnaudit.audit` as a user writes them in Python, checked and turned into what Settings hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from bnaudit.errors import UsageError
from bnaudit.records import replace
from bnaudit.run_options import RunOptions
from bnaudit.settings import Settings


def with_options(settings: Settings, options: Mapping[str, Any]) -> Settings:
    """The settings with fields of Settings and RunOptions given by name.

    One text stands for a tuple of one; `intended` may be a dict, or texts as on the command line (`BN302=prenet.*`).
    Raises UsageError for a value that the option cannot have, TypeError for an option that there is not.
    """
    if not isinstance(settings, Settings):
        kind = type(settings).__name__
        raise UsageError(f"settings cannot be a {kind}", remedy="give options by name, audit(net, inputs=…)")
    own = {name for name in Settings._fields if name != "run"}
    for name in options:
        if name not in own and name not in RunOptions._fields:
            raise TypeError(f"audit() has no option {name!r}{_nearest(name, (*own, *RunOptions._fields))}")
    checked = {name: _CHECKS[name](name, value) if name in _CHECKS else value for name, value in options.items()}
    of_run = {name: value for name, value in checked.items() if name not in own}
    return replace(
        settings,
        **{name: value for name, value in checked.items() if name in own},
        run=replace(settings.run, **of_run),
    )


def _nearest(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, list(known), n=1)
    return f": did you mean {close[0]}?" if close else ""


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(str(text) for text in _iterated(name, value, "texts"))


def _pairs(name: str, value: Any) -> tuple[tuple[str, str], ...]:
    entries = value.items() if isinstance(value, Mapping) else [value] if isinstance(value, str) else value
    pairs = []
    for entry in _iterated(name, entries, "pairs of a rule and a pattern"):
        rule, pattern = entry.partition("=")[::2] if isinstance(entry, str) else (*entry, "", "")[:2]
        pairs.append((str(rule), str(pattern) or "*"))
    return tuple(pairs)


def _iterated(name: str, value: Any, what: str) -> Iterable[Any]:
    try:
        return list(value)
    except TypeError:
        raise UsageError(f"{name}={value!r} holds no {what}", remedy="give a tuple of them") from None


def _whole(smallest: int, optional: bool = True) -> Callable[[str, Any], int | None]:
    def check(name: str, value: Any) -> int | None:
        if value is None and optional:
            return None
        number = value.__index__() if hasattr(value, "__index__") and not isinstance(value, bool) else None
        if number is None or number < smallest:
            raise UsageError(f"{name}={value!r} is no whole number of at least {smallest}", remedy="give another")
        return int(number)

    return check


def _seconds(name: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not hasattr(value, "__float__") or not float(value) >= 0:
        raise UsageError(f"{name}={value!r} is no number of seconds", remedy="give a number, 60")
    return float(value)


def _sizes(name: str, value: Any) -> Mapping[str, int]:
    if not isinstance(value, Mapping):
        raise UsageError(f"{name}={value!r} gives no sizes by name", remedy="give a dict, {'height': 224}")
    size = _whole(1, optional=False)
    return MappingProxyType({str(key): size(f"{name}[{key!r}]", number) or 1 for key, number in value.items()})


def _arguments(name: str, value: Any) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise UsageError(f"{name}={value!r} gives no arguments by name", remedy="give a dict, {'width': 64}")
    return value


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(("select", "ignore", "layers", "custom_ops"), _texts),
    **dict.fromkeys(("batch_size", "training_batch_size"), _whole(1)),
    "anchors": _whole(1, optional=False),
    "axis": _whole(0),
    "seed": _whole(0, optional=False),
    "budget": _seconds,
    "intended": _pairs,
    "dims": _sizes,
    "model_args": _arguments,
    "device": lambda name, value: str(value),
}
