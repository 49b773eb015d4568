"""BN901: pickles that do more than build a model. The pickles are real; none of them is ever loaded."""

from __future__ import annotations

import argparse
import collections
import enum
import functools
import os
import pathlib
import pickle
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders import hits

from bnaudit.description import PickleImport
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.pickles.machine import run
from bnaudit.results import Confidence, Hit, Severity

RULE = "bn901_unsafe_pickle"


ABUSED = """
posix.system nt.system os.popen os.execv os.spawnl os.fork subprocess.Popen subprocess.check_output commands.getoutput
platform.popen pty.spawn builtins.eval __builtin__.execfile builtins.breakpoint builtins.input builtins.setattr
builtins.delattr importlib.import_module runpy.run_path pickle.loads _pickle.load cPickle.loads marshal.loads dill.loads
cloudpickle.loads joblib.load torch.load torch.jit.load torch.hub.load numpy.load types.FunctionType types.CodeType
code.interact timeit.timeit cProfile.run pdb.run bdb.Bdb.run asyncio.create_subprocess_shell socket.create_connection
urllib.request.urlopen requests.get http.client.HTTPConnection ftplib.FTP smtplib.SMTP webbrowser.open ctypes.CDLL
operator.attrgetter _operator.methodcaller shutil.move _io.open io.open io.FileIO tempfile.mkstemp linecache.getline
pathlib.PosixPath.write_bytes numpy.testing._private.utils.runstring threading.Thread multiprocessing.Process sys.exit
sys.settrace torch.serialization.os.system torch._utils.sys.modules pkgutil.resolve_name pydoc.locate ensurepip._run_pip
torch.utils.bottleneck.__main__.run_cprofile numpy.f2py.crackfortran.getlincoef yaml.unsafe_load
"""
HARMLESS_RELATIVES = """
os.path.join shutil_tools.Model subprocess_models.Net torch.loading.Net io.BytesIO mypackage.system sysconfig.Net
"""


class Calls:
    """Pickles as `callee(*args)`."""

    def __init__(self, callee: Callable[..., Any], *args: Any) -> None:
        self.reduced = callee, args

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.reduced


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(2)
        self.register_forward_hook(self.look)

    def look(self, *_: Any) -> None:
        return None


Judge = Callable[[bytes], list[Hit]]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """What the rule says of a pickle, read by our own machine."""

    def judged(data: bytes) -> list[Hit]:
        path = tmp_path / "file.pkl"
        path.write_bytes(data)
        with ByteSource.open(path) as source:
            return hits(RULE, imports=run(source).imports)

    return judged


def named(*entries: PickleImport) -> list[Hit]:
    return hits(RULE, imports=entries)


def fetched(name: str, foreign: bool, called: bool = False) -> PickleImport:
    return PickleImport(name=name, called=called, foreign_target=foreign, fetched=True)


def errors(found: list[Hit]) -> list[Hit]:
    return [hit for hit in found if hit.severity is Severity.ERROR]


def loud(found: list[Hit]) -> list[Hit]:
    return [hit for hit in found if hit.severity is not Severity.NOTE]


@pytest.mark.parametrize("protocol", range(6))
def test_os_system_is_an_error_with_its_command_and_is_not_run(judge: Judge, tmp_path: Path, protocol: int) -> None:
    canary = tmp_path / "canary"
    (hit,) = judge(pickle.dumps({"model": 1, "extra": Calls(os.system, f"touch {canary}")}, protocol))
    assert hit.severity is Severity.ERROR
    assert hit.message.startswith(f"loading it calls {os.system.__module__}.system('touch ")
    assert hit.message.endswith("which runs a program")
    assert not canary.exists()


@pytest.mark.parametrize("protocol", range(6))
def test_a_subprocess_is_an_error_under_the_name_of_python_2_as_well(judge: Judge, protocol: int) -> None:
    """Below protocol 3 pickle writes commands.Popen, which it reads as subprocess.Popen again; torch.save uses 2."""
    data = pickle.dumps(Calls(subprocess.Popen, ["true"]), protocol)
    assert (b"commands" in data) is (protocol < 3)
    (hit,) = errors(judge(data))
    assert hit.message.endswith("which runs a program")


@pytest.mark.parametrize(
    "payload",
    [
        Calls(eval, "1"),
        Calls(exec, "pass"),
        Calls(compile, "1", "x", "eval"),
        Calls(open, "file"),
        Calls(__import__, "os"),
        Calls(shutil.rmtree, "folder"),
        Calls(torch.load, "other.pt"),
        Calls(np.load, "other.npy"),
        Calls(pickle.loads, b"N."),
        Calls(torch.hub.load, "owner/repository", "model"),
        Calls(pathlib.Path.write_text, pathlib.PurePosixPath("file"), "text"),
        Calls(setattr, torch.nn.Module, "forward", None),
        Calls(globals),
    ],
    ids=lambda payload: payload.reduced[0].__qualname__,
)
def test_every_kind_of_effect_is_an_error(judge: Judge, payload: Calls) -> None:
    assert len(errors(judge(pickle.dumps(payload)))) == 1


@pytest.mark.parametrize("name", ABUSED.split())
def test_the_list_holds_what_is_known_to_be_abused(name: str) -> None:
    (hit,) = named(PickleImport(name=name, called=True))
    assert hit.severity is Severity.ERROR
    assert hit.value == name


def test_only_full_names_count() -> None:
    harmless_relatives = [
        "os.path.join",
        "shutil_tools.Model",
        "subprocess_models.Net",
        "torch.loading.Net",
        "io.BytesIO",
    ]
    found = named(*(PickleImport(name=name, called=True) for name in harmless_relatives))
    assert not loud(found)


@pytest.mark.parametrize("name", ["torch.serialization.os", "numpy.__builtins__", "numpy.prod.__globals__"])
def test_a_way_round_through_another_module_is_found(name: str) -> None:
    assert errors(named(PickleImport(name=name, called=True)))


@pytest.mark.parametrize("name", ["sys.modules", "os.environ"])
def test_an_object_of_the_process_needs_no_call(name: str) -> None:
    assert errors(named(PickleImport(name=name, called=False)))


def test_importing_some_modules_is_an_effect_of_its_own() -> None:
    assert errors(named(PickleImport(name="antigravity.geohash", called=False)))


def test_a_dangerous_name_without_a_call_is_a_warning_of_medium_confidence(judge: Judge) -> None:
    (hit,) = judge(pickle.dumps([os.system, 1]))
    assert (hit.severity, hit.confidence) == (Severity.WARNING, Confidence.MEDIUM)


@pytest.mark.parametrize(
    "payload",
    [functools.partial(os.system, "true"), Calls(map, os.system, ["true"]), collections.defaultdict(os.abort)],
    ids=["partial", "map", "defaultdict"],
)
def test_a_dangerous_name_handed_to_something_that_calls_it_is_an_error(judge: Judge, payload: Any) -> None:
    assert len(errors(judge(pickle.dumps(payload)))) == 1


@pytest.mark.parametrize(
    "payload",
    [functools.partial(torch.relu, torch.ones(1)), collections.defaultdict(list)],
    ids=["partial", "defaultdict"],
)
def test_callers_with_harmless_functions_are_no_errors(judge: Judge, payload: Any) -> None:
    assert not loud(judge(pickle.dumps(payload)))


def test_bound_methods_of_objects_in_the_file_are_harmless(judge: Judge) -> None:
    found = judge(pickle.dumps(Net(), 2))
    assert [hit.severity for hit in found] == [Severity.NOTE]
    assert found[0].message == f"needs these classes to load: {__name__}.Net"


@pytest.mark.parametrize("function", [torch.relu, torch.Tensor.relu, str.lower, dict.fromkeys])
@pytest.mark.parametrize("protocol", [2, 4])
def test_built_in_functions_fetch_themselves_from_their_class(judge: Judge, function: Any, protocol: int) -> None:
    (hit,) = judge(pickle.dumps(function, protocol))
    assert hit.severity is Severity.NOTE
    assert hit.message.endswith(f".{function.__name__}")


class Color(enum.Enum):
    """Python 3.11.0 to 3.11.3 pickle its members as `getattr(Color, "RED")`."""

    RED = 1


class Outer:
    class Inner:
        """Protocols before 4 pickle it as `getattr(Outer, "Inner")`."""


@pytest.mark.parametrize("payload", [Calls(getattr, Net, "look"), Calls(getattr, Color, "RED"), Outer.Inner])
def test_another_attribute_of_an_imported_class_is_a_warning(judge: Judge, payload: Any) -> None:
    assert [hit.severity for hit in loud(judge(pickle.dumps(payload, 2)))] == [Severity.WARNING]


@pytest.mark.parametrize(
    "name",
    [
        "torch.serialization.os.system",
        "os.popen",
        "collections.OrderedDict.__class__",
        "torch.nn.modules.module.Module.__init__",
        "glob.escape.__globals__.get",
        "collections.OrderedDict.?",
    ],
)
def test_a_fetched_attribute_that_leads_to_an_effect_is_an_error(name: str) -> None:
    assert errors(named(fetched(name, foreign=True)))


def test_fetching_what_is_known_and_harmless_is_silent() -> None:
    assert not named(fetched("torch.nn.functional.relu", foreign=True))


def test_methods_of_objects_in_the_file_are_silent_until_they_are_called() -> None:
    assert not named(fetched("__main__.Net.look", foreign=False))
    assert not named(fetched("builtins.str.upper", foreign=False, called=True))
    (hit,) = named(fetched("__main__.Net.look", foreign=False, called=True))
    assert hit.severity is Severity.WARNING
    assert errors(named(fetched("pathlib.PosixPath.unlink", foreign=False, called=True)))
    (hit,) = named(fetched("pathlib.PosixPath.unlink", foreign=False))
    assert hit.severity is Severity.WARNING


@pytest.mark.parametrize("name", ["collections.OrderedDict", "__main__.Net", "torch.nn.modules.module.Module"])
def test_changing_anything_outside_is_an_error(name: str) -> None:
    assert errors(named(PickleImport(name=name, called=False, modified=True)))
    assert not loud(named(PickleImport(name=name, called=True)))


def test_handing_getattr_on_is_an_error_and_having_it_is_not() -> None:
    assert errors(named(PickleImport(name="builtins.getattr", called=True, handed_on=True)))
    assert not named(PickleImport(name="builtins.getattr", called=True))


def test_a_graph_module_is_a_warning(judge: Judge) -> None:
    traced = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.BatchNorm1d(2)))
    found = loud(judge(pickle.dumps(traced)))
    assert [hit.severity for hit in found] == [Severity.WARNING]
    assert "source text" in found[0].message


def test_what_checkpoints_usually_hold_is_silent(judge: Judge) -> None:
    usual = {
        "state_dict": torch.nn.BatchNorm2d(3).state_dict(),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "module": torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU()),
        "args": argparse.Namespace(lr=0.1, out=pathlib.PurePosixPath("runs")),
        "best": np.float64(0.9),
        "array": np.arange(3.0),
        "activation": functools.partial(torch.nn.functional.relu, inplace=True),
        "dtype": torch.float16,
        "size": torch.Size([1, 2]),
        "device": torch.device("cpu"),
        "groups": collections.defaultdict(list, {"a": [{1}, frozenset({2})]}),
        "bytes": b"\x00\xff",
    }
    for protocol in (2, 4):
        assert not judge(pickle.dumps(usual, protocol))


def test_both_names_of_numpys_internals_are_known() -> None:
    names = [f"numpy.{core}.multiarray.{name}" for core in ("core", "_core") for name in ("scalar", "_reconstruct")]
    assert not named(*(PickleImport(name=name, called=True) for name in names))


def test_types_inside_torchscript_are_no_python_classes() -> None:
    assert not named(
        PickleImport(name="__torch__.torch.nn.modules.batchnorm.___torch_mangle_0.BatchNorm2d", called=True)
    )


def test_other_classes_are_one_note_that_is_cut() -> None:
    entries = [PickleImport(name=f"__main__.Net{i}", called=True) for i in range(10)]
    (hit,) = named(*entries)
    assert (hit.severity, hit.value) == (Severity.NOTE, 10)
    assert hit.message.endswith("__main__.Net7 and 2 more")


def test_every_effect_has_the_same_advice() -> None:
    found = named(*(PickleImport(name=name, called=True) for name in ("os.system", "builtins.eval")))
    assert len({hit.advice for hit in found}) == 1


@pytest.mark.parametrize("name", ["builtins.getattr", "__builtin__.getattr"])
def test_getattr_handed_on_is_an_error_under_both_its_names(name: str) -> None:
    assert errors(named(PickleImport(name=name, called=True, handed_on=True)))
    assert not loud(named(PickleImport(name=name, called=True)))


@pytest.mark.parametrize(
    "name",
    [
        "torch.fx.graph_module.reduce_graph_module",
        "torch.fx.graph_module.reduce_deploy_graph_module",
        "torch.fx.graph_module.reduce_package_graph_module",
        "torch.fx._lazy_graph_module.reduce_graph_module",
    ],
)
def test_everything_that_compiles_stored_source_is_a_warning_when_it_is_called(name: str) -> None:
    (hit,) = loud(named(PickleImport(name=name, called=True)))
    assert (hit.severity, hit.confidence) == (Severity.WARNING, Confidence.HIGH)
    assert hit.message.endswith("which compiles source text stored in the file")
    assert not loud(named(PickleImport(name=name, called=False)))


SYSTEM = PickleImport(name="os.system", called=False)


@pytest.mark.parametrize(
    ("entry", "others", "is_error"),
    [
        (SYSTEM, (), False),
        (PickleImport(name="os.system", called=False, handed_on=True), (), True),
        (PickleImport(name="os.system", called=False, foreign_target=True), (), False),
        (fetched("os.system", foreign=True), (), True),
        (SYSTEM, (PickleImport(name="functools.reduce", called=True),), True),
        (SYSTEM, (PickleImport(name="functools.reduce", called=False),), False),
        (SYSTEM, (PickleImport(name="mine.f", called=True, arguments=("1", "os.system")),), True),
        (SYSTEM, (PickleImport(name="mine.f", called=False, arguments=("1", "os.system")),), False),
        (SYSTEM, (PickleImport(name="mine.f", called=True, arguments=("1",)),), False),
    ],
)
def test_a_dangerous_name_is_an_error_where_something_may_call_it(
    entry: PickleImport, others: tuple[PickleImport, ...], is_error: bool
) -> None:
    (hit,) = [hit for hit in loud(named(entry, *others)) if hit.value == "os.system"]
    assert hit.severity is (Severity.ERROR if is_error else Severity.WARNING)
    assert hit.confidence is (Confidence.HIGH if is_error else Confidence.MEDIUM)


@pytest.mark.parametrize(("count", "ends"), [(8, "m.C7"), (9, "m.C7 and 1 more")])
def test_eight_classes_are_named(count: int, ends: str) -> None:
    (hit,) = named(*(PickleImport(name=f"m.C{at}", called=True) for at in range(count)))
    assert hit.message.startswith("needs these classes to load: m.C0, ") and hit.message.endswith(ends)
