"""What the settings may hold: one check for every kind of value.

A check takes what TOML, or the command line, gave and its place, and returns the value to work with. Tables come out
flat: `[limits.BN404] mean_shift = 0.4` is `{"BN404.mean_shift": 0.4}`, so that all tables are merged in one way.
Everything wrong raises UsageError with the place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Any

from bnaudit import option_texts
from bnaudit.nearest_name import nearest
from bnaudit.option_texts import RunTexts, run_options
from bnaudit.policy.place import Place, is_file
from bnaudit.results import Confidence, Question, Severity
from bnaudit.rules import load_rule, rule_files
from bnaudit.settings import caps_from, check_selectors

Check = Callable[[object, Place], Any]


def flag(value: object, place: Place) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        place.refuse(f"this is true or false, not {kind(value)}")
    return value


def text(value: object, place: Place) -> str:
    """A text with something in it."""
    if not isinstance(value, str):
        place.refuse(f"this needs a text, not {kind(value)}")
    if not value.strip() or "\0" in value:
        place.refuse("this text is empty" if not value.strip() else "this text holds a null character")
    return value


def texts(value: object, place: Place) -> tuple[str, ...]:
    """A list of texts; one text stands for a list of one."""
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, (list, tuple)):
        place.refuse(f"this needs a list of texts, not {kind(value)}")
    return tuple(text(each, place) for each in given)


def whole(value: object, place: Place) -> int:
    """A whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        place.refuse(f"this needs a whole number, not {kind(value)}")
    return value


def positive(value: object, place: Place) -> float:
    """A finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        place.refuse(f"this needs a number, not {kind(value)}")
    if not 0 < value <= _LARGEST:
        place.refuse("this needs a number above 0")
    return float(value)


def selectors(value: object, place: Place) -> tuple[str, ...]:
    """Prefixes of rule ids."""
    with place.named():
        return check_selectors(texts(value, place))


def severity(value: object, place: Place) -> Severity:
    """note, warning or error."""
    label = text(value, place)
    if label.lower() in ("off", "none", "ignore", "false"):
        place.refuse(f"{label!r} is no severity", 'put the rule into `ignore`, ignore = ["BN105"]')
    return Severity[_choice(label, [level.label for level in Severity], "severity", place).upper()]


def confidence(value: object, place: Place) -> Confidence:
    """low, medium or high."""
    known = [level.label for level in Confidence]
    return Confidence[_choice(text(value, place), known, "confidence", place).upper()]


def questions(value: object, place: Place) -> tuple[Question, ...]:
    """Verdicts, or `all` or `none`, in the order of the report."""
    wanted = texts(value, place)
    if not wanted:
        place.refuse("this names no verdict", "name some, or write none")
    known = [question.value for question in Question]
    if len(wanted) == 1 and wanted[0] in ("all", "none"):
        return tuple(Question) if wanted[0] == "all" else ()
    chosen = [Question(_choice(name, known, "verdict", place)) for name in wanted]
    return tuple(question for question in Question if question in chosen)


def severities(value: object, place: Place) -> dict[str, Severity]:
    """A table of rule prefixes and severities; typed, `BN105=error`."""
    return {_prefix(rule, at): severity(level, at) for rule, level, at in _entries(value, place)}


def limits(value: object, place: Place) -> dict[str, float]:
    """A table of tables, rule and limit; typed, `BN404.mean_shift=0.4`."""
    found: dict[str, float] = {}
    for name, given, at in _entries(value, place):
        rule, dot, limit = name.partition(".") if place.typed else (name, "", "")
        if place.typed and not dot:
            at.refuse(f"this names no limit of {rule}")
        found.update(_limits_of(rule, {limit: given} if place.typed else given, at))
    return found


def intended(value: object, place: Place) -> dict[str, tuple[str, str]]:
    """A table of rule prefixes and patterns; typed, `BN302=prenet.*`. Keyed by both: patterns of a rule add up."""
    if place.typed:
        with place.named():
            pairs = list(option_texts.intended(texts(value, place)))
        for prefix, _ in pairs:
            _refuse_rules_on_two(prefix, place)
    else:
        pairs = [
            (_prefix(rule, at), pattern) for rule, given, at in _entries(value, place) for pattern in texts(given, at)
        ]
    return {f"{rule}={pattern}": (rule, pattern) for rule, pattern in pairs}


def caps(value: object, place: Place) -> dict[str, int]:
    """A table of the bounds of reading; typed, `value_bytes=1000000`."""
    found: dict[str, int] = {}
    for name, number, at in _entries(value, place):
        name = name.replace("-", "_")
        with at.named():
            found[name] = getattr(caps_from([f"{name}={_digits(number, at)}"]), name)
    return found


def dimensions(value: object, place: Place) -> dict[str, int]:
    """A table of names and sizes; typed, `height=224`."""
    if place.typed:
        with place.named():
            return dict(option_texts.dimensions(texts(value, place)))
    found: dict[str, int] = {}
    for name, size, at in _entries(value, place):
        with at.named():
            found.update(option_texts.dimensions([f"{name}={_digits(size, at)}"]))
    return found


def arguments(value: object, place: Place) -> dict[str, object]:
    """A table of keyword arguments; typed, a JSON object."""
    if place.typed and isinstance(value, str):
        with place.named():
            return dict(option_texts.model_arguments(value))
    return dict(table(value, place))


def of_run(field: str, check: Check, result: str = "") -> Check:
    """The check of an option of a run: its kind, then what the command line demands of the same option."""

    def checked(value: object, place: Place) -> object:
        given: Any = check(value, place)
        with place.named():
            return getattr(run_options(RunTexts(**{field: given})), result or field)

    return checked


def duration(value: object, place: Place) -> str:
    """A length of time as a text, or a number of seconds."""
    if isinstance(value, str):
        return text(value, place)
    number = positive(value, place)
    return f"{number:f}" if number >= 1e-6 else place.refuse("this length of time is too short to do anything")


def callable_spec(value: object, place: Place) -> str:
    """`file.py:callable`, the file as it is reached from the working directory, or `package.module:callable`."""
    return _located(text(value, place), place)


def inputs(value: object, place: Place) -> str:
    """The path of a file of inputs, or a callable."""
    given = text(value, place)
    path = place.path(given)
    return path if is_file(path) else _located(given, place)


def files(value: object, place: Place) -> list[str]:
    """Paths of files."""
    return [place.path(each) for each in texts(value, place)]


def table(value: object, place: Place) -> Mapping[str, object]:
    """A table, whatever it holds."""
    if not isinstance(value, Mapping):
        place.refuse(f"this needs a table, not {kind(value)}")
    return value


def kind(value: object) -> str:
    """What a value of TOML is, in a sentence."""
    if isinstance(value, bool):
        return f"{value}".lower()
    if isinstance(value, (int, float)):
        return "a number"
    names = {"str": "a text", "list": "a list", "tuple": "a list", "dict": "a table"}
    return names.get(type(value).__name__, "a date or time")


_LARGEST = 1e300


def _choice(given: str, known: list[str], what: str, place: Place) -> str:
    if given.lower() not in known:
        place.refuse(f"{given!r} is no {what}", nearest(given, known, f"there are {', '.join(known)}"))
    return given.lower()


def _prefix(rule: str, place: Place) -> str:
    with place.named():
        (prefix,) = check_selectors([rule])
    _refuse_rules_on_two(prefix, place)
    return prefix


def _refuse_rules_on_two(prefix: str, place: Place) -> None:
    """What is said here of rules about two artifacts alone would do nothing: no gate applies them."""
    files = [file for id, file in rule_files().items() if id.startswith(prefix)]
    if all("baseline" in load_rule(file).needs for file in files):
        about = f"{prefix} is about two artifacts, which no gate compares"
        place.refuse(about, "take it away; `bnaudit compare` has --intended and --ignore")


def _digits(value: object, place: Place) -> str:
    """A whole number as it is typed."""
    return value if place.typed and isinstance(value, str) else str(whole(value, place))[:400]


def _entries(value: object, place: Place) -> Iterator[tuple[str, object, Place]]:
    """Name, value and place of each entry of a table, or of each `name=value` that was typed."""
    if place.typed:
        for each in texts(value, place):
            name, equals, given = each.rpartition("=")
            if not equals:
                place.inside(each).refuse("this gives a name no value", f"write {place.example}")
            yield name, given, place._replace(text=f"{place.text} {each}")
    else:
        for key, entry in table(value, place).items():
            yield key, entry, place.inside(key)


def _limits_of(rule: str, given: object, place: Place) -> Iterator[tuple[str, float]]:
    files, id = rule_files(), rule.upper()
    if id not in files:
        place.refuse(f"no rule is called {rule!r}", nearest(id, files, "`bnaudit rules` lists them"))
    _refuse_rules_on_two(id, place)
    known = load_rule(files[id]).limits
    for name, number in table(given, place).items():
        at = place if place.typed else place.inside(name)
        limit = name.replace("-", "_")
        if limit not in known:
            otherwise = f"it has {', '.join(known)}" if known else "it has none"
            at.refuse(f"{id} has no limit {name!r}", nearest(limit, known, otherwise))
        yield f"{id}.{limit}", _limit(number, at)


def _limit(value: object, place: Place) -> float:
    if place.typed and isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            place.refuse("this needs a number")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        place.refuse(f"this needs a number, not {kind(value)}", "write mean_shift = 0.4")
    if not value >= 0 or _LARGEST < value != inf:
        place.refuse("this needs a number of at least 0", "give another")
    return float(value)


def _located(given: str, place: Place) -> str:
    file, colon, name = given.rpartition(":")
    if file.endswith(".py"):
        return f"{place.path(file)}:{name}"
    module = place.path(f"{file.replace('.', '/')}.py")
    return f"{module}:{name}" if colon and not place.typed and is_file(module) else given
