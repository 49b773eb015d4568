"""Observed scores in NumPy's files."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bnaudit.diagnosis import ScoreKind
from bnaudit.errors import BnauditError, UnreadableError
from bnaudit.feeds import files
from bnaudit.observed import read_log, read_observed

RNG = np.random.default_rng(5)
LOGITS = RNG.normal(size=(12, 10)).astype(np.float32)


def saved(folder: Path, name: str = "scores.npz", **named: Any) -> Path:
    np.savez(folder / name, **named)
    return folder / name


def test_an_archive_holds_scores_and_the_log_beside_them(tmp_path: Path) -> None:
    log = read_log(saved(tmp_path, logits=LOGITS, input=np.arange(12)[::-1], request=np.arange(12) // 4))
    assert log.observed.kind is ScoreKind.LOGITS
    assert log.observed.rows.tolist() == list(range(11, -1, -1))
    assert log.observed.step is None
    np.testing.assert_array_equal(log.observed.values, LOGITS.astype(np.float64))


def test_columns_say_which_outputs_they_are(tmp_path: Path) -> None:
    observed = read_observed(saved(tmp_path, scores=LOGITS[:, [3, 7]], columns=np.array([3, 7])))
    assert observed.columns == (3, 7)
    with pytest.raises(UnreadableError, match="`columns` does not say which 2 outputs"):
        read_observed(saved(tmp_path, "wrong.npz", scores=LOGITS[:, [3, 7]], columns=np.array([3, 7, 8])))


@pytest.mark.parametrize("decimals", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_is_seen_in_the_values(tmp_path: Path, decimals: int, dtype: type) -> None:
    np.save(tmp_path / "s.npy", np.round(LOGITS.astype(np.float64), decimals).astype(dtype))
    assert read_observed(tmp_path / "s.npy").step == pytest.approx(10.0**-decimals)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_full_precision_has_no_step(tmp_path: Path, dtype: type) -> None:
    np.save(tmp_path / "s.npy", RNG.normal(size=(30, 10)).astype(dtype))
    assert read_observed(tmp_path / "s.npy").step is None


def test_half_precision_is_remarked_on(tmp_path: Path) -> None:
    np.save(tmp_path / "half.npy", LOGITS.astype(np.float16).astype(np.float32))
    np.save(tmp_path / "brain.npy", (LOGITS.view(np.uint32) & 0xFFFF0000).view(np.float32))
    assert "--precision fp16" in read_observed(tmp_path / "half.npy").remarks[0]
    assert "--precision bf16" in read_observed(tmp_path / "brain.npy").remarks[0]
    np.save(tmp_path / "full.npy", LOGITS)
    assert read_observed(tmp_path / "full.npy").remarks == ()


@pytest.mark.parametrize("decimals", [None, 3])
def test_rows_that_sum_to_one_are_probabilities(tmp_path: Path, decimals: int | None) -> None:
    odds = np.exp(LOGITS.astype(np.float64))
    shares = odds / odds.sum(axis=1, keepdims=True)
    np.save(tmp_path / "p.npy", shares if decimals is None else np.round(shares, decimals))
    assert read_observed(tmp_path / "p.npy").kind is ScoreKind.PROBABILITIES


def test_whole_numbers_in_one_dimension_are_labels(tmp_path: Path) -> None:
    np.save(tmp_path / "l.npy", LOGITS.argmax(1))
    observed = read_observed(tmp_path / "l.npy")
    assert observed.kind is ScoreKind.LABELS
    assert observed.values.tolist() == LOGITS.argmax(1).tolist()


def test_features_of_the_inputs_tell_them_apart(tmp_path: Path) -> None:
    features = RNG.normal(size=(12, 4))
    features[5] = features[2]
    log = read_log(saved(tmp_path, scores=LOGITS, features=features))
    assert log.keys is not None
    assert log.keys[5] == log.keys[2]
    assert len(set(log.keys)) == 11
    assert read_observed(saved(tmp_path, "e.npz", features=features)).values.shape == (12, 4)


def test_more_axes_are_flattened_as_the_output_is(tmp_path: Path) -> None:
    maps = RNG.normal(size=(4, 3, 5, 5))
    np.save(tmp_path / "m.npy", maps)
    np.testing.assert_array_equal(read_observed(tmp_path / "m.npy").values, maps.reshape(4, -1))


def test_named_fields_are_columns(tmp_path: Path) -> None:
    table = np.array([(4, 0.5, 1.5), (2, 0.25, 2.5)], dtype=[("input", "i8"), ("logit_0", "f8"), ("logit_1", "f8")])
    np.save(tmp_path / "t.npy", table)
    observed = read_observed(tmp_path / "t.npy")
    assert observed.rows.tolist() == [4, 2]
    assert observed.columns == (0, 1)


@given(arrays(np.float32, (4, 3), elements=st.floats(-100, 100, width=32)))
def test_what_was_saved_is_read_exactly(tmp_path_factory: pytest.TempPathFactory, values: np.ndarray) -> None:
    path = tmp_path_factory.mktemp("npz")
    observed = read_observed(saved(path, logits=values, input=np.array([3, 0, 2, 1])), ScoreKind.LOGITS)
    np.testing.assert_array_equal(observed.values, values.astype(np.float64))
    assert observed.rows.tolist() == [3, 0, 2, 1]


def test_pickles_are_never_read(tmp_path: Path) -> None:
    np.save(tmp_path / "o.npy", np.array([{"a": 1}], dtype=object))
    np.savez(tmp_path / "o.npz", scores=np.array([[1, "a"]], dtype=object))
    for name in ("o.npy", "o.npz"):
        with pytest.raises(UnreadableError, match="Python objects"):
            read_log(tmp_path / name)


def test_archives_that_cannot_be_a_log_are_refused(tmp_path: Path) -> None:
    cases = {
        "different numbers of rows": {"scores": LOGITS, "input": np.arange(5)},
        "no observation": {"scores": LOGITS[:0]},
        "one value": {"scores": np.float64(2.0)},
        "no numbers but": {"scores": np.array([1 + 2j])},
        "have no columns": {"scores": LOGITS[:, :0]},
        "no column holds scores": {"city": np.array(["a", "b"])},
    }
    for says, named in cases.items():
        with pytest.raises(UnreadableError, match=says):
            read_log(saved(tmp_path, "case.npz", **named))


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bnaudit.observed.arrays._MOST_BYTES", 2**20)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (2**28, 1)})
    path = tmp_path / "bomb.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("scores.npy", "w", force_zip64=True) as entry,
    ):
        entry.write(header.getvalue())
        entry.write(bytes(2**22))
    with pytest.raises(UnreadableError, match="too many"):
        read_log(tmp_path / "bomb.npz")


@given(st.integers(0, 2000), st.integers(0, 255))
def test_a_changed_byte_gives_scores_or_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, place: int, value: int
) -> None:
    path = saved(tmp_path_factory.mktemp("changed"), logits=LOGITS, input=np.arange(12))
    held = bytearray(path.read_bytes())
    held[place % len(held)] = value
    path.write_bytes(held)
    try:
        read_log(path)
    except BnauditError as error:
        assert "\n" not in str(error)


def test_a_cut_archive_is_said_to_be_cut_in_no_programmers_words(tmp_path: Path) -> None:
    path = saved(tmp_path, scores=np.ones((40, 5)))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(UnreadableError, match=r"cut off or broken \(scores\.npz\): copy or save the file again$"):
        read_observed(path)
    with pytest.raises(UnreadableError, match=r"cut off or broken \(scores\.npz\)"):
        files.read(path)
