"""The committed samples are what the table says, load where they should, and tell nothing about who made them."""

from __future__ import annotations

import io
import pickletools
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from sample_models.catalogue import CANARY, CONTROLS, DEFECTS, HEALTHY, NORMS, SAMPLES
from sample_models.digits import build

FOLDER = Path(__file__).parents[2] / "sample_models"
KINDS = ("healthy", "defects", "controls", "compare")


def contents(path: Path) -> Iterator[bytes]:
    """A file's bytes, and those of the members when it is an archive, archives in archives included."""
    yield from unpacked(path.read_bytes())


def unpacked(data: bytes) -> Iterator[bytes]:
    yield data
    if data.startswith(b"PK\x03\x04"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name in archive.namelist():
                yield from unpacked(archive.read(name))


def held_out() -> tuple[torch.Tensor, np.ndarray]:
    with np.load(FOLDER / "digits.npz") as data:
        return torch.from_numpy(data["inputs"]), data["labels"]


def test_the_table_lists_every_file_and_nothing_else() -> None:
    on_disk = {f"{kind}/{entry.name}" for kind in KINDS for entry in (FOLDER / kind).iterdir()}
    assert on_disk == SAMPLES.keys()


def test_all_samples_together_stay_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.suffix != ".pyc") < 3_000_000


def test_healthy_and_controls_expect_no_error_and_defects_expect_something() -> None:
    assert not [name for name, sample in HEALTHY.items() if sample.findings]
    assert all(sample.findings or sample.notes or sample.run.findings for sample in DEFECTS.values())
    assert not [name for name, sample in CONTROLS.items() if any(f.rule != "BN103" for f in sample.findings)]
    assert not [name for name, sample in {**HEALTHY, **CONTROLS}.items() if sample.run and sample.run.findings]


@pytest.mark.parametrize("kind", KINDS)
def test_no_sample_holds_a_path_of_the_machine_that_made_it(kind: str) -> None:
    files = [path for path in (FOLDER / kind).rglob("*") if path.is_file()]
    found = [(path.name, mark) for path in files for data in contents(path) for mark in MARKS if mark in data]
    assert not found


MARKS = (b"/home/", b"/root/", b"/tmp/", b"/usr/", b"/Users/", b"C:\\", b"site-packages")


def test_expected_layers_are_the_norms_of_the_architecture() -> None:
    modules = build().named_modules()
    assert tuple(name for name, module in modules if isinstance(module, torch.nn.BatchNorm2d)) == NORMS


@pytest.mark.parametrize("name", ["healthy/state_dict.pt", "healthy/state_dict_legacy.pth"])
def test_healthy_state_dicts_predict_the_held_out_digits(name: str) -> None:
    net = build()
    net.load_state_dict(torch.load(FOLDER / name, weights_only=True))
    inputs, labels = held_out()
    with torch.no_grad():
        assert (net.eval()(inputs).argmax(1).numpy() == labels).mean() > 0.95


def test_averaged_weights_without_update_bn_really_ruin_the_predictions() -> None:
    checkpoint = torch.load(FOLDER / "defects/averaged_without_update_bn.pth", weights_only=True)
    average = {name.removeprefix("module."): value for name, value in checkpoint["model_ema"].items()}
    average.pop("n_averaged")
    net = build()
    net.load_state_dict(average)
    inputs, labels = held_out()
    with torch.no_grad():
        assert (net.eval()(inputs).argmax(1).numpy() == labels).mean() < 0.5


def test_the_hostile_pickle_would_run_the_canary_command() -> None:
    with zipfile.ZipFile(FOLDER / "defects/hostile_pickle.pt") as archive:
        pickle = archive.read("hostile_pickle/data.pkl")
    start = [(op.name, arg) for op, arg, _ in pickletools.genops(pickle)][:6]
    assert start[1:5] == [
        ("GLOBAL", "posix system"),
        ("BINUNICODE", f"touch {CANARY}"),
        ("TUPLE1", None),
        ("REDUCE", None),
    ]


def test_reading_the_hostile_pickle_with_weights_only_is_refused() -> None:
    with pytest.raises(Exception, match=r"posix\.system"):
        torch.load(FOLDER / "defects/hostile_pickle.pt", weights_only=True)
