"""How another process finds a factory that was handed over as an object."""

from __future__ import annotations

import sys

from bnaudit.session import NotPossibleError

_REMEDY = "give it as file.py:callable"


def factory_name(model: object) -> str:
    """`file.py:callable` or `package.module:callable`; "" for a live module, or when there is no factory.

    Raises NotPossibleError for a callable that has no name that another process could import.
    """
    if model is None:
        return ""
    if isinstance(model, str):
        return model
    if hasattr(model, "state_dict") and not isinstance(model, type):
        return ""
    module, name = getattr(model, "__module__", None), getattr(model, "__qualname__", None)
    if not (isinstance(module, str) and isinstance(name, str)):
        what = f"a factory of class {type(model).__qualname__} has no name that another process could import"
        raise NotPossibleError(what, remedy=_REMEDY)
    found: object = sys.modules.get(module)
    for piece in name.split("."):
        found = getattr(found, piece, None)
    if module == "__main__" or found is not model:
        raise NotPossibleError(f"the factory {name} cannot be imported by another process", remedy=_REMEDY)
    return f"{module}:{name}"
