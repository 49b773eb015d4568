"""What `file.py:callable` and `package.module:callable` find, and what is said when they do not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bnaudit.errors import UnreadableError, UsageError
from bnaudit.user_code import is_spec, load_callable, raised


@pytest.fixture(autouse=True)
def _modules_as_before() -> Iterator[None]:
    modules, path = set(sys.modules), list(sys.path)
    yield
    for name in set(sys.modules) - modules:
        del sys.modules[name]
    sys.path[:] = path


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_and_its_neighbours_are_imported(tmp_path: Path) -> None:
    written(tmp_path / "sizes_of_net.py", "WIDTH = 7\n")
    file = written(tmp_path / "some_net.py", "from sizes_of_net import WIDTH\ndef build():\n    return WIDTH\n")
    assert load_callable(f"{file}:build")() == 7  # type: ignore[operator]


def test_relative_imports_work_in_a_package(tmp_path: Path) -> None:
    written(tmp_path / "netpack" / "__init__.py", "")
    written(tmp_path / "netpack" / "sizes.py", "WIDTH = 3\n")
    file = written(tmp_path / "netpack" / "net.py", "from .sizes import WIDTH\nclass Net:\n    width = WIDTH\n")
    assert load_callable(f"{file}:Net.width") == 3


def test_a_module_is_found_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "here_only.py", "def build():\n    return 5\n")
    monkeypatch.chdir(tmp_path)
    assert load_callable("here_only:build")() == 5  # type: ignore[operator]


def test_one_file_is_executed_once(tmp_path: Path) -> None:
    file = written(tmp_path / "once_only.py", "a = object()\nb = a\n")
    assert load_callable(f"{file}:a") is load_callable(f"{file}:b")


def test_a_file_with_the_name_of_a_loaded_module_is_still_the_one_asked_for(tmp_path: Path) -> None:
    first = written(tmp_path / "one" / "twin.py", "x = 1\n")
    second = written(tmp_path / "two" / "twin.py", "x = 2\n")
    library = written(tmp_path / "json.py", "x = 3\n")
    assert [load_callable(f"{file}:x") for file in (first, second, library, second)] == [1, 2, 3, 2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("net.py:build", True),
        (r"C:\nets\net.py:build", True),
        ("pkg.module:Class.build", True),
        ("net.py", False),
        ("net.py:", False),
        (":build", False),
        (r"C:\data\digits.npz", False),
        ("some-file:build", False),
        ("net.py:2build", False),
    ],
)
def test_the_form_of_a_spec(text: str, expected: bool) -> None:
    assert is_spec(text) is expected


def test_wrong_specs_are_usage_errors(tmp_path: Path) -> None:
    file = written(tmp_path / "close_names.py", "def build():\n    return 0\n")
    with pytest.raises(UsageError, match=r"did you mean build\?"):
        load_callable(f"{file}:biuld")
    with pytest.raises(UsageError, match="there is no file"):
        load_callable(f"{tmp_path / 'absent.py'}:build")
    with pytest.raises(UsageError, match="there is no module 'nowhere_at_all'"):
        load_callable("nowhere_at_all.nets:build")
    with pytest.raises(UsageError, match=r"file\.py:callable"):
        load_callable("digits.npz")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\nraise ValueError('no width')\n", r"raised ValueError: no width \(broken\.py:2\)"),
        ("def f(:\n", r"raised SyntaxError: .*\(broken\.py:1\)"),
        ("import sys\n\nsys.exit('done')\n", r"raised SystemExit: done \(broken\.py:3\)"),
        ("import not_installed_anywhere\n", r"ModuleNotFoundError: .*not_installed_anywhere.*\(broken\.py:1\)"),
        ("import json\njson.loads('{')\n", r"JSONDecodeError: .*\(broken\.py:2\)"),
    ],
)
def test_an_error_of_the_users_code_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    file = written(tmp_path / "broken.py", text)
    with pytest.raises(UnreadableError, match=message):
        load_callable(f"{file}:build")


def test_a_call_that_raises_is_told_with_the_users_line(tmp_path: Path) -> None:
    file = written(tmp_path / "raising.py", "def build():\n    return 1 // 0\n")
    build = load_callable(f"{file}:build")
    with pytest.raises(ZeroDivisionError) as caught:
        build()  # type: ignore[operator]
    sentence = str(raised("calling build", caught.value))
    assert sentence.startswith("calling build raised ZeroDivisionError: ")
    assert sentence.endswith("(raising.py:2)")


def test_the_place_of_a_syntax_error_is_told_once(tmp_path: Path) -> None:
    written(tmp_path / "broken.py", "x = 1\ndef f(:\n")
    with pytest.raises(UnreadableError) as caught:
        load_callable(f"{tmp_path / 'broken.py'}:f")
    assert str(caught.value).count("broken.py:2") == 1
    assert "line 2" not in str(caught.value)
    (tmp_path / "zeros.py").write_bytes(b"x\0")
    with pytest.raises(UnreadableError, match="null bytes") as caught:
        load_callable(f"{tmp_path / 'zeros.py'}:f")
    assert "importlib" not in str(caught.value)


def test_a_relative_import_without_a_package_says_what_helps(tmp_path: Path) -> None:
    written(tmp_path / "lonely.py", "from . import other\n")
    with pytest.raises(UnreadableError, match=r"lonely\.py:1\): put an __init__\.py beside the file"):
        load_callable(f"{tmp_path / 'lonely.py'}:f")
