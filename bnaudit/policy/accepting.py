"""The `[[accept]]` entries of the settings: findings that are known and fail nothing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from bnaudit.last_days import day_of
from bnaudit.nearest_name import nearest
from bnaudit.policy.checks import kind, table, text
from bnaudit.policy.place import Place
from bnaudit.results import Acceptance
from bnaudit.settings import check_selectors

_KEYS = ("rule", "reason", "layer", "file", "until")


def accepted(value: object, place: Place) -> dict[str, Acceptance]:
    """The entries by their places; none is called expired before today is known."""
    if not isinstance(value, (list, tuple)):
        place.refuse(f"this needs entries, not {kind(value)}")
    entries = {}
    for position, entry in enumerate(value):
        at = place._replace(text=f"{place.text}[{position}]")
        entries[at.text] = _entry(table(entry, at), at)
    return entries


def _last_day(value: object, place: Place) -> str:
    """A date of TOML or a text like `2027-01-31`, as the text."""
    if type(value) is date:
        return value.isoformat()
    given = text(value, place) if isinstance(value, str) else ""
    if day_of(given) is None:
        place.refuse(f"{given!r} is no day" if given else "this is no date", "write until = 2027-01-31")
    return given


def _entry(entry: Mapping[str, object], place: Place) -> Acceptance:
    for name in entry:
        if name not in _KEYS:
            otherwise = f"there are {', '.join(_KEYS)}"
            place.refuse(f"an accepted finding has no {name!r}", nearest(name, _KEYS, otherwise))
    for name in ("rule", "reason"):
        if name not in entry:
            place.refuse(f"this gives no {name}", f"add {name} = {_EXAMPLES[name]}")
    rule = place.inside("rule")
    with rule.named():
        (prefix,) = check_selectors([text(entry["rule"], rule)])
    return Acceptance(
        source=place.text,
        rule=prefix,
        reason=text(entry["reason"], place.inside("reason")),
        until=_last_day(entry["until"], place.inside("until")) if "until" in entry else "",
        layer=text(entry.get("layer", "*"), place.inside("layer")),
        artifact=text(entry.get("file", "*"), place.inside("file")),
        root=str(place.folder),
    )


_EXAMPLES = {"rule": '"BN105"', "reason": '"why it is accepted"'}
