"""The user's own Python, named on the command line: `file.py:callable` or `package.module:callable`."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

from bnaudit.errors import UnreadableError, UsageError
from bnaudit.nearest_name import nearest

_FORM = "write file.py:callable or package.module:callable"


def is_spec(text: str) -> bool:
    """Whether the text has the form `file.py:callable` or `package.module:callable`; nothing is looked up."""
    place, _, name = text.rpartition(":")
    if not place or not all(piece.isidentifier() for piece in name.split(".")):
        return False
    return place.endswith(".py") or all(piece.isidentifier() for piece in place.split("."))


def load_callable(spec: str) -> object:
    """What the spec names, whether it can be called or not.

    The folder of the file's outermost package (or the current one, for a module) goes to the front of `sys.path` and
    stays there, as Python would have it, since the user's code may import more when it is called.

    Raises UsageError for a spec that names nothing (with the nearest name) and UnreadableError when the code raises.
    """
    place, _, name = spec.rpartition(":")
    if not is_spec(spec):
        raise UsageError(f"{spec!r} does not name a callable", remedy=_FORM)
    module = _from_file(place) if place.endswith(".py") else _from_import(place)
    found: object = module
    for piece in name.split("."):
        found = _attribute(found, piece, place)
    return found


def raised(doing: str, error: BaseException) -> UnreadableError:
    """An error of the user's code as one sentence: `calling build raised ValueError: … (net.py:41)`."""
    text = error.msg if isinstance(error, SyntaxError) else str(error)  # the place is told besides
    message = f"{type(error).__name__}: {text}" if text else type(error).__name__
    remedy = ""
    if isinstance(error, ImportError) and "relative import" in text:
        remedy = "put an __init__.py beside the file, or name it as package.module:callable"
    return UnreadableError(f"{doing} raised {message}", where=origin(error), remedy=remedy)


def origin(error: BaseException) -> str:
    """`net.py:41`: the innermost line of the user's own code that the error came through, else the innermost line."""
    if isinstance(error, SyntaxError):
        return f"{Path(error.filename).name}:{error.lineno}" if error.filename else ""
    lines: list[tuple[str, int]] = []
    step = error.__traceback__
    while step is not None:
        lines.append((step.tb_frame.f_code.co_filename, step.tb_lineno))
        step = step.tb_next
    own = [(file, line) for file, line in lines if _is_users(file)]
    own = own or [(file, line) for file, line in lines if not file.startswith("<frozen")]
    return f"{Path(own[-1][0]).name}:{own[-1][1]}" if own else ""


def _is_users(file: str) -> bool:
    path = Path(file)
    installed = {"site-packages", "dist-packages"} & set(path.parts)
    ours = path.parent == Path(__file__).parent or Path(__file__).parent in path.parents
    library = any(Path(root) in path.parents for root in _LIBRARY) and not installed
    return not (installed or ours or library or file.startswith("<"))


_LIBRARY = tuple({str(Path(module.__file__).parent) for module in (sys.modules["os"],) if module.__file__})
"""Folders of the standard library."""


def _attribute(owner: object, name: str, place: str) -> object:
    try:
        return getattr(owner, name)
    except AttributeError:
        public = [known for known in dir(owner) if not known.startswith("_")]
        remedy = nearest(name, public, "name something that it defines", cutoff=0.5)
        raise UsageError(f"{place} has no {name!r}", remedy=remedy) from None


def _from_import(name: str) -> ModuleType:
    _put_first(Path.cwd())
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(missing + "."):
            remedy = "start where the module can be imported, or give the path of its file"
            raise UsageError(f"there is no module {missing!r}", remedy=remedy) from None
        raise raised(f"importing {name}", error) from error
    except (Exception, SystemExit) as error:
        raise raised(f"importing {name}", error) from error


def _from_file(place: str) -> ModuleType:
    path = Path(place).expanduser().resolve()
    if not path.is_file():
        raise UsageError(f"there is no file {place}", remedy="give the path of the Python file in front of the colon")
    root, name = package_of(path)
    _put_first(root)
    loaded = sys.modules.get(name)
    if loaded is not None and _is_at(loaded, path):
        return loaded
    try:
        if loaded is None:
            module = import_module(name)
            if _is_at(module, path):
                return module
        return _executed(path, f"{name}_{abs(hash(str(path))):x}")
    except (Exception, SystemExit) as error:
        raise raised(f"importing {place}", error) from error


def package_of(path: Path) -> tuple[Path, str]:
    """The folder that holds the file's outermost package, and the file's dotted name from there."""
    names, root = [path.stem], path.parent
    while (root / "__init__.py").is_file() and root.name.isidentifier() and root != root.parent:
        names.insert(0, root.name)
        root = root.parent
    return root, ".".join(names)


def _is_at(module: ModuleType, path: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve() == path


def _put_first(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _executed(path: Path, name: str) -> ModuleType:
    """The file as a module of its own, for a name that another module has."""
    from importlib.util import module_from_spec, spec_from_file_location

    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path.name} cannot be imported", remedy=_FORM)
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickles look their module up there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
