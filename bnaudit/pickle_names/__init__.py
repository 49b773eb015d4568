"""What the names in a pickle stand for: full names and their effect, never module prefixes.

A list can not be complete: any function of any installed package may be named. This one holds what Python's
standard library, PyTorch, NumPy and the usual companions offer for running programs and code, loading more of the
same, importing, and reaching files, the network, native code and the state of the process. A name that is in
neither list is shown to the person who decides (BN901), so that nothing passes unseen.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.pickle_names.harmless import HARMLESS
from bnaudit.pickle_names.more_code import MORE_CODE, PROGRAM
from bnaudit.pickle_names.surroundings import ATTRIBUTES, NETWORK, SURROUNDINGS

_MUTABLE_STATE = """
os posix nt: environ environb
sys: modules path meta_path path_hooks path_importer_cache
"""
_CALLERS = """
functools: partial partialmethod reduce
builtins __builtin__: map filter sorted max min reduce
itertools: imap ifilter starmap accumulate filterfalse takewhile dropwhile groupby
collections: defaultdict
types: MethodType
torch: Tensor.apply_ Tensor.map_ Tensor.map2_ Tensor.__torch_function__
"""
_METHOD_HOLDERS = """
torch._C: _VariableFunctionsClass _VariableFunctions TensorBase _TensorBase
torch: Tensor
builtins __builtin__: str unicode int long float bytes bytearray list dict tuple set frozenset
"""
# `torch.serialization` imports os, so a pickle may say torch.serialization.os.system. A name that ends in one of
# these modules and a listed name, or in one of the first line's modules itself, is the same object.
_MODULES = """
os posix nt sys subprocess builtins __builtin__ importlib shutil ctypes socket pickle _pickle marshal runpy
"""
_MORE_MODULES = """
io _io types operator tempfile pathlib urllib requests torch numpy threading multiprocessing signal atexit
"""
_INTROSPECTION = """
__globals__ __builtins__ __subclasses__ __getattribute__ __getattr__ __setattr__ __delattr__ __import__ __dict__
__code__ __closure__ __func__ __self__ __wrapped__ __class__ __base__ __bases__ __mro__ __loader__ __spec__
__call__ __reduce__ __reduce_ex__ __init_subclass__ __subclasshook__ __get__ __set__ __objclass__ __annotations__
__defaults__ __kwdefaults__ __traceback__ __context__ __cause__ f_globals f_builtins f_locals f_back f_code tb_frame
gi_frame gi_code cr_frame cr_code ag_frame ag_code func_globals func_code func_closure im_func im_self im_class
"""


def _names(lines: str) -> Iterator[str]:
    for line in lines.strip().splitlines():
        modules, _, names = line.partition(":")
        for module in modules.split():
            for name in names.split():
                yield f"{module}.{name}"


_EFFECT_OF = {
    name: effect for table in (MORE_CODE, SURROUNDINGS) for effect, lines in table.items() for name in _names(lines)
}
_HARMLESS = frozenset(_names(HARMLESS))
_LEADING_ASTRAY = frozenset(_INTROSPECTION.split())
_MODULE_NAMES = frozenset(_MODULES.split())
_REACHED_THROUGH_OTHERS = _MODULE_NAMES | frozenset(_MORE_MODULES.split())
_ON_IMPORT = {"antigravity": NETWORK, "idlelib.idle": PROGRAM}

MUTABLE_STATE = frozenset(_names(_MUTABLE_STATE))
"""Objects of the process that a pickle can change by item assignment, without calling anything."""
CALLERS = frozenset(_names(_CALLERS))
"""Harmless by themselves, but they call what they are given, now or later."""
METHOD_HOLDERS = frozenset(_names(_METHOD_HOLDERS))
"""Classes that built-in functions and methods are pickled as attributes of: `torch.relu`, `str.lower`."""


def effect_of(name: str) -> str | None:
    """What the global `name` (full dotted name) does when it is called or used; None: nothing that is known."""
    effect = _effect_of(name)
    if effect is None and (current := _current_name(name)) != name:
        return _effect_of(current)
    return effect


def _current_name(name: str) -> str:
    """The name that is imported for it: below protocol 3 pickle writes and reads the names of Python 2.

    torch.save writes protocol 2, and so `commands.Popen` for subprocess.Popen.
    """
    from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING

    module, _, attribute = name.rpartition(".")
    while module:
        if (module, attribute) in NAME_MAPPING:
            return ".".join(NAME_MAPPING[module, attribute])
        if module in IMPORT_MAPPING:
            return f"{IMPORT_MAPPING[module]}.{attribute}"
        module, _, last = module.rpartition(".")
        attribute = f"{last}.{attribute}"
    return name


def _effect_of(name: str) -> str | None:
    parts = name.split(".")
    for start in range(len(parts) - 1):
        if start == 0 or parts[start] in _REACHED_THROUGH_OTHERS:
            effect = _EFFECT_OF.get(".".join(parts[start:]))
            if effect is not None:
                return effect
    if len(parts) > 1 and (parts[-1] in _MODULE_NAMES or not _LEADING_ASTRAY.isdisjoint(parts[1:])):
        return ATTRIBUTES
    return acts_on_import(name)


def acts_on_import(name: str) -> str | None:
    """What importing the module of `name` does, whatever is asked of it; None: nothing that is known."""
    return _ON_IMPORT.get(name.rpartition(".")[0])


def is_harmless(name: str) -> bool:
    """Whether a name is known, always there and without an effect (`torch._utils._rebuild_tensor_v2`)."""
    return name in _HARMLESS
