"""The options of `bnaudit.audit` as a user writes them in Python, checked and turned into what Settings hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from bnaudit.errors import UsageError
from bnaudit.nearest_name import nearest
from bnaudit.records import replace
from bnaudit.results import Acceptance, Confidence, Question, Severity
from bnaudit.rules import load_rule, rule_files
from bnaudit.run_options import RunOptions
from bnaudit.settings import Settings, check_selectors


def with_options(settings: Settings, options: Mapping[str, Any], function: str = "audit") -> Settings:
    """The settings with fields of Settings and RunOptions given by name.

    One text stands for a tuple of one; `intended` may be a dict, or texts as on the command line (`BN302=prenet.*`),
    `accept` a dict of the same texts and reasons; severities, confidences and questions go by their names.
    Raises UsageError for a value that the option cannot have, TypeError for an option that there is not.
    """
    if not isinstance(settings, Settings):
        kind = type(settings).__name__
        raise UsageError(f"settings cannot be a {kind}", remedy="give options by name, audit(net, inputs=…)")
    own = {name for name in Settings._fields if name != "run"}
    for name in options:
        if name not in own and name not in RunOptions._fields:
            meant = nearest(name, (*own, *RunOptions._fields), "")
            raise TypeError(f"{function}() has no option {name!r}{meant and f': {meant}'}")
    checked = {name: _CHECKS[name](name, value) if name in _CHECKS else value for name, value in options.items()}
    of_run = {name: value for name, value in checked.items() if name not in own}
    return replace(
        settings,
        **{name: value for name, value in checked.items() if name in own},
        run=replace(settings.run, **of_run),
    )


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(str(text) for text in _iterated(name, value, "texts"))


def _pairs(name: str, value: Any) -> tuple[tuple[str, str], ...]:
    entries = value.items() if isinstance(value, Mapping) else [value] if isinstance(value, str) else value
    pairs = []
    for entry in _iterated(name, entries, "pairs of a rule and a pattern"):
        rule, pattern = entry.partition("=")[::2] if isinstance(entry, str) else (*entry, "", "")[:2]
        (prefix,) = _rules([rule])
        pairs.append((prefix, str(pattern) or "*"))
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


def _level(kind: type[Severity] | type[Confidence]) -> Callable[[str, Any], Any]:
    def check(name: str, value: Any) -> Severity | Confidence:
        levels = {level.label: level for level in kind}
        label = value.label if isinstance(value, kind) else value
        if label not in levels:
            raise UsageError(f"{name}={value!r} is no level", remedy=f"there are {', '.join(levels)}")
        return levels[label]

    return check


def _questions(name: str, value: Any) -> tuple[Question, ...]:
    """By their names, `all` for all, `none` for none; in the order of the report."""
    known = [question.value for question in Question]
    wanted = [text.value if isinstance(text, Question) else text for text in _listed(name, value)]
    if wanted == ["none"]:
        return ()
    for text in wanted:
        if text != "all" and text not in known:
            remedy = nearest(str(text), known, f"there are {', '.join(known)}, all, none")
            raise UsageError(f"{name} names no verdict with {text!r}", remedy=remedy)
    return tuple(question for question in Question if "all" in wanted or question.value in wanted)


def _listed(name: str, value: Any) -> Iterable[Any]:
    if isinstance(value, Question):
        return [value]
    return value.split(",") if isinstance(value, str) else _iterated(name, value, "names of verdicts")


def _acceptances(name: str, value: Any) -> tuple[Acceptance, ...]:
    if not isinstance(value, Mapping):
        given = tuple(_iterated(name, value, "accepted findings"))
        wrong = next((each for each in given if not isinstance(each, Acceptance)), None)
        if wrong is not None:
            raise UsageError(f"{name} holds {wrong!r}, no Acceptance", remedy="give a dict, {'BN105': 'why'}")
        return tuple(each if each.expired else replace(each, expired=_is_over(name, each.until)) for each in given)
    accepted = []
    for text, reason in value.items():
        rule, _, layer = str(text).partition("=")
        if not str(reason or "").strip():
            raise UsageError(f"{name}[{text!r}] gives no reason", remedy="say why the finding is accepted")
        (rule,) = _rules([rule])
        accepted.append(Acceptance(source=f"{name}[{text!r}]", rule=rule, layer=layer or "*", reason=str(reason)))
    return tuple(accepted)


def _is_over(name: str, until: str) -> bool:
    from datetime import date

    from bnaudit.last_days import day_of, is_over

    if until and day_of(until) is None:
        raise UsageError(f"{name} ends on {until!r}, which is no day", remedy="write 2027-01-31")
    return is_over(until, date.today())


def _limits(name: str, value: Any) -> Mapping[str, Mapping[str, float]]:
    """Rule → limit → number; a name that no rule has would change nothing, and nobody would know."""
    if not isinstance(value, Mapping) or not all(isinstance(each, Mapping) for each in value.values()):
        raise UsageError(f"{name}={value!r} gives no limits by rule", remedy="give {'BN404': {'mean_shift': 0.4}}")
    files = rule_files()
    found: dict[str, Mapping[str, float]] = {}
    for rule, limits in value.items():
        id = str(rule).upper()
        if id not in files:
            remedy = nearest(id, files, "`bnaudit rules` lists them")
            raise UsageError(f"{name} names no rule with {rule!r}", remedy=remedy)
        known = load_rule(files[id]).limits
        own = {str(limit).replace("-", "_"): number for limit, number in limits.items()}
        for limit, number in own.items():
            if limit not in known:
                remedy = nearest(limit, known, f"it has {', '.join(known) or 'none'}")
                raise UsageError(f"{id} has no limit {limit!r}", remedy=remedy)
            if isinstance(number, bool) or not hasattr(number, "__float__") or not float(number) >= 0:
                raise UsageError(f"{name}: {id}.{limit}={number!r} is no number of at least 0", remedy="give another")
        found[id] = MappingProxyType({limit: float(number) for limit, number in own.items()})
    return MappingProxyType(found)


def _rules(prefixes: Iterable[Any]) -> tuple[str, ...]:
    return check_selectors(map(str, prefixes))


def _severities(name: str, value: Any) -> Mapping[str, Severity]:
    if not isinstance(value, Mapping):
        raise UsageError(f"{name}={value!r} gives no severities by rule", remedy="give a dict, {'BN105': 'note'}")
    level = _level(Severity)
    levels = [level(f"{name}[{rule!r}]", given) for rule, given in value.items()]
    return MappingProxyType(dict(zip(_rules(value), levels, strict=True)))


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(("select", "ignore"), lambda name, value: _rules(_texts(name, value))),
    **dict.fromkeys(("layers", "custom_ops"), _texts),
    **dict.fromkeys(("batch_size", "training_batch_size"), _whole(1)),
    "anchors": _whole(1, optional=False),
    "axis": _whole(0),
    "seed": _whole(0, optional=False),
    "budget": _seconds,
    "intended": _pairs,
    "fail_on": _level(Severity),
    "min_confidence": _level(Confidence),
    "require": _questions,
    "accept": _acceptances,
    "severities": _severities,
    "limits": _limits,
    "dims": _sizes,
    "model_args": _arguments,
    "device": lambda name, value: str(value),
}
