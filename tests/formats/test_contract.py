"""What every format owes, whoever writes it: all formats are found by looking and tried on every sample."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from plain import plain
from subjects import SAMPLES, candidate_of, copied, subject_id, subjects

import bnaudit
from bnaudit.caps import Caps
from bnaudit.description import Description, StoredTensor
from bnaudit.errors import BnauditError, CapExceededError
from bnaudit.formats import Candidate, Format, formats, identify
from bnaudit.settings import Settings
from bnaudit.targets import expand

FORMATS = tuple(formats())
SUBJECTS = tuple(subjects())
OTHER_ENDINGS = ("", ".onnx", ".safetensors", ".pt", ".weird")

every_format = pytest.mark.parametrize("entry", FORMATS, ids=[entry.name for entry in FORMATS])
every_subject = pytest.mark.parametrize("path", SUBJECTS, ids=subject_id)


def read(path: Path) -> Description:
    with candidate_of(path) as candidate:
        return identify(candidate).read(candidate)


def without_place(description: Description) -> object:
    return plain(description, without=("path",))


def size_of(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*")) if path.is_dir() else path.stat().st_size


def open_files(*folders: Path) -> list[str]:
    """Files below the folders that this process holds open; other libraries open and close theirs as they like."""
    links = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # closed while the folder was listed
            links.append(str(descriptor.readlink()))
    return [link for link in links if link.startswith(tuple(str(folder.resolve()) for folder in folders))]


@every_format
def test_its_name_and_endings_are_well_formed(entry: Format) -> None:
    assert entry.name.strip() == entry.name != ""
    assert len(entry.name) < 40 and entry.name.isprintable()
    for suffix in entry.suffixes:
        assert suffix == suffix.lower() and suffix.startswith(".") and len(suffix) > 1 and suffix.isprintable()
    assert len(set(entry.suffixes)) == len(entry.suffixes)


def test_no_two_formats_have_one_name() -> None:
    assert len({entry.name for entry in FORMATS}) == len(FORMATS)


@pytest.mark.parametrize("entry", [entry for entry in FORMATS if entry.is_read], ids=lambda entry: entry.name)
def test_a_format_that_is_read_has_a_sample(entry: Format) -> None:
    for path in SUBJECTS:
        with candidate_of(path) as candidate:
            if entry.claims(candidate):
                return
    pytest.fail(f"no sample is a {entry.name}: add one to sample_models/")


@every_subject
def test_one_format_and_no_second_claims_a_sample(path: Path) -> None:
    with candidate_of(path) as candidate:
        claiming = [entry.name for entry in FORMATS if entry.is_read and entry.claims(candidate)]
    assert len(claiming) == 1, claiming


@every_subject
def test_the_artifact_says_which_file_was_read_and_how_much_of_it(path: Path) -> None:
    artifact = read(path).artifact
    assert artifact.path == str(path)
    assert artifact.format.strip()
    assert artifact.size <= size_of(path if path.is_dir() or "index" not in path.name else path.parent)
    assert artifact.size >= 0.9 * size_of(path), "the small files beside the weights are all that may be left out"
    # A small file costs a few looks of some kilobytes each; a large one only its headers and norms.
    assert 0 < artifact.bytes_read <= 2 * artifact.size + 4096


@every_subject
def test_names_are_unique_within_a_part_and_parts_within_a_file(path: Path) -> None:
    description = read(path)
    parts = [part.name for part in description.parts]
    assert parts and len(set(parts)) == len(parts)
    for part in description.parts:
        layers = [layer.name for layer in part.layers]
        assert len(set(layers)) == len(layers)
        others = [other.name for other in part.mode_dependent]
        assert len(set(others)) == len(others)


@every_subject
def test_tensors_are_read_only_and_exact_in_shape_and_type(path: Path) -> None:
    for _, layer in read(path).layers:
        for tensor in layer.tensors:
            check_tensor(tensor)


def check_tensor(tensor: StoredTensor) -> None:
    assert (tensor.values is None) == bool(tensor.absence)
    assert not tensor.unread or tensor.values is None
    assert tensor.name and tensor.dtype
    if tensor.values is not None:
        assert tensor.values.shape == tensor.shape
        assert tensor.values.dtype == (np.float64 if tensor.is_floating else np.int64)
        assert not tensor.values.flags.writeable


@every_subject
def test_the_cap_on_norm_layers_holds(path: Path) -> None:
    layers = len(list(read(path).layers))
    assert len(list(bnaudit.describe(path, Settings(caps=Caps(norm_layers=max(layers, 1)))).layers)) == layers
    if layers > 1:
        with pytest.raises(CapExceededError, match="--cap norm_layers"):
            bnaudit.describe(path, Settings(caps=Caps(norm_layers=1)))


@every_subject
def test_reading_twice_says_the_same_twice(path: Path) -> None:
    assert plain(read(path)) == plain(read(path))


@every_subject
def test_the_content_decides_whatever_the_ending(path: Path, tmp_path: Path) -> None:
    expected = without_place(read(path))
    for number, ending in enumerate(OTHER_ENDINGS):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert without_place(read(copied(path, folder, f"renamed{ending}"))) == expected


@every_subject
def test_a_scan_of_folders_finds_it_among_other_files(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "best"
    folder.mkdir(parents=True)
    (tmp_path / "runs" / "notes.md").write_text("Trained for 10 epochs.\n")
    (tmp_path / "runs" / "curve.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    target = copied(path, folder)
    found = expand([tmp_path], Caps())
    assert target in found.paths or target.parent in found.paths, "as itself or as part of the model folder around it"
    assert found.other_files >= 2 and not found.missing


def broken(data: bytes, chance: random.Random) -> Iterator[bytes]:
    """What is left of a file after accidents, from nothing at all to its first bytes before something else."""
    for length in (0, 1, 2, 4, 9, 100, 600, len(data) // 2, len(data) - 1):
        yield data[:length]
        yield data[:length] + bytes(300)
        yield data[:length] + chance.randbytes(300)
    yield data + data
    yield data[1:]


@every_format
def test_broken_files_raise_nothing_but_expected_errors(entry: Format, tmp_path: Path) -> None:
    chance = random.Random(entry.name)
    for path in SUBJECTS:
        if path.is_dir():
            continue
        target = tmp_path / path.name
        for data in broken(path.read_bytes(), chance):
            target.write_bytes(data)
            try_one(entry, target)


def try_one(entry: Format, path: Path) -> None:
    try:
        with candidate_of(path) as candidate:
            if entry.claims(candidate):
                assert isinstance(entry.read(candidate), Description)
    except BnauditError as error:
        assert str(error) and "\n" not in str(error)


@every_format
def test_folders_without_a_model_are_left_alone(entry: Format, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    for name in ("config.json", "README.md", "loss.csv"):
        (tmp_path / "other" / name).write_text("{}")
    for folder in (tmp_path / "empty", tmp_path / "other", tmp_path / "gone"):
        assert not entry.claims(Candidate(folder, None))


@pytest.mark.parametrize("path", [path for path in SUBJECTS if path.is_dir()], ids=subject_id)
def test_a_broken_folder_raises_nothing_but_expected_errors(path: Path, tmp_path: Path) -> None:
    chance = random.Random(path.name)
    for number, inner in enumerate(file for file in sorted(path.iterdir()) for _ in range(12)):
        folder = copied(path, tmp_path, str(number))
        data = (folder / inner.name).read_bytes()
        (folder / inner.name).write_bytes(chance.choice(list(broken(data, chance))))
        for entry in FORMATS:
            try_one(entry, folder)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are counted in /proc")
def test_no_file_stays_open(tmp_path: Path) -> None:
    chance = random.Random(0)
    folders = tmp_path, *{path.parent for path in SUBJECTS}
    for path in SUBJECTS:
        read(path)
        assert open_files(*folders) == [], path
        if not path.is_dir():
            target = tmp_path / path.name
            for data in broken(path.read_bytes(), chance):
                target.write_bytes(data)
                bnaudit.audit(target)
            assert open_files(*folders) == [], path


NOT_NEEDED = ("torch", "onnx", "onnxruntime", "safetensors", "google", "pickle", "zipfile", "tarfile", "subprocess")
LIST_LOADED = f"""
import sys
import bnaudit
for path in sys.argv[1:]:
    bnaudit.describe(path)
print(*{{name.split(".")[0] for name in sys.modules}} & set({NOT_NEEDED!r}))
"""


def test_reading_loads_no_framework_and_no_unpickler() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIST_LOADED, *map(str, SUBJECTS)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SAMPLES.parent)},
        check=True,
    )
    # numpy itself imports pickle; nothing that reads a model may use it (see test_house.py).
    assert set(done.stdout.split()) <= {"pickle"}
