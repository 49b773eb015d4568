"""Options that several commands share, written once: a command takes them as one value and shows one option each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import Annotated, Any, NamedTuple, get_type_hints


def with_options_of(
    command: Callable[..., int], name: str, kind: type[NamedTuple], options: Mapping[str, Any]
) -> Callable[..., int]:
    """The command, which takes a `kind` under this name, with an option for each of its fields instead."""
    fields: Any = kind
    hints = get_type_hints(fields)
    flags = [
        Parameter(
            field,
            Parameter.KEYWORD_ONLY,
            default=fields._field_defaults[field],
            annotation=Annotated[hints[field], option],
        )
        for field, option in options.items()
    ]
    own = signature(command, eval_str=True)
    kept = [parameter for other, parameter in own.parameters.items() if other != name]

    @functools.wraps(command)
    def run(**given: Any) -> int:
        value = fields(**{field: given.pop(field) for field in options})
        return command(**{name: value}, **given)

    merged = own.replace(parameters=[parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in kept] + flags)
    run.__signature__ = merged  # type: ignore[attr-defined]
    run.__annotations__ = {field: parameter.annotation for field, parameter in merged.parameters.items()}
    return run
