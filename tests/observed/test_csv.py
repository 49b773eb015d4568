"""Observed scores in CSV, as people write them."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bnaudit.diagnosis import ScoreKind
from bnaudit.errors import UnreadableError, UsageError
from bnaudit.observed import check_rows, read_log, read_observed


def written(folder: Path, text: str | bytes, name: str = "scores.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_columns_are_found_by_their_names(tmp_path: Path) -> None:
    text = "request,input,logit_3,logit_7,agent\n0,5,1.250,-0.125,x\n0,2,0.500,,y\n1,5,2.000,0.001,z\n"
    log = read_log(written(tmp_path, text))
    assert log.observed.kind is ScoreKind.LOGITS
    assert log.observed.columns == (3, 7)
    assert log.observed.step == 0.001
    assert log.observed.rows.tolist() == [5, 2, 5]
    assert log.observed.requests is not None
    assert log.observed.requests.tolist() == [0, 0, 1]
    np.testing.assert_array_equal(log.observed.values, [[1.25, -0.125], [0.5, np.nan], [2.0, 0.001]])
    assert log.observed.remarks == ("not read: column 'agent'",)


def test_names_of_inputs_tell_them_apart_and_cannot_be_mapped(tmp_path: Path) -> None:
    path = written(tmp_path, "id,cat,dog\nu7,0.25,1.5\nu3,0.5,1\nu7,0.75,2\n")
    log = read_log(path)
    assert log.keys == ("u7", "u3", "u7")
    assert log.observed.rows.tolist() == [0, 1, 0]
    with pytest.raises(UsageError, match="row numbers of the inputs"):
        read_observed(path)


@pytest.mark.parametrize("head", ["input_hash,score_0,score_1", "feature_0,score_0,score_1", "sha256,score_0,score_1"])
def test_logged_content_tells_inputs_apart(tmp_path: Path, head: str) -> None:
    log = read_log(written(tmp_path, f"{head}\n1.5,0.2,3\n2.5,0.1,3\n1.5,0.3,2\n"))
    assert log.keys is not None
    assert log.keys[0] == log.keys[2] != log.keys[1]
    assert log.observed.rows.tolist() == [0, 1, 2], "with a model they are in the order of the inputs"


def test_times_and_sizes_are_read(tmp_path: Path) -> None:
    text = "time,batch_size,input,score\n2026-03-01T10:00:00Z,8,0,0.5\n2026-03-01T10:00:01.5+00:00,,1,0.75\n"
    log = read_log(written(tmp_path, text))
    assert log.times is not None
    assert np.diff(log.times).tolist() == [1.5]
    assert log.batch_sizes is not None
    assert log.batch_sizes.tolist() == [8, 0]


@pytest.mark.parametrize(
    ("rows", "step"),
    [
        (["0.123", "1.250", "-7.001", "0.5"], 0.001),
        (["12", "3", "-4", "0.0"], None),
        (["0.1234567", "3.1415927", "-2.7182817", "1.4142135"], 1e-7),
        (["0.10000000149011612", "3.141592653589793", "-2.718281828459045", "1.41421356"], None),
        (["1.5e-2", "2.5e-1", "0.001", "3.25"], 0.001),
        (["-0.50", "2.25", "1.75", "0.10"], 0.01),
    ],
)
def test_the_step_is_where_the_numbers_end(tmp_path: Path, rows: list[str], step: float | None) -> None:
    observed = read_observed(written(tmp_path, "logit_0\n" + "\n".join(rows)))
    if step is None:
        assert observed.step is None or observed.step >= 0.1
    else:
        assert observed.step == pytest.approx(step)


def test_significant_digits_give_the_root_mean_square_of_their_steps(tmp_path: Path) -> None:
    rows = ["1.234", "12.34", "0.1234", "123.4", "0.5678", "98.76"]
    observed = read_observed(written(tmp_path, "logit_0\n" + "\n".join(rows)))
    steps = np.array([1e-3, 1e-2, 1e-4, 1e-1, 1e-4, 1e-2])
    assert observed.step == pytest.approx(float(np.sqrt(np.mean(steps**2))))


@given(arrays(np.float64, (5, 3), elements=st.floats(-1e6, 1e6)))
def test_what_was_written_is_read_exactly(tmp_path_factory: pytest.TempPathFactory, values: np.ndarray) -> None:
    lines = [",".join(repr(float(value)) for value in row) for row in values]
    path = written(tmp_path_factory.mktemp("csv"), "logit_0,logit_1,logit_2\n" + "\n".join(lines))
    np.testing.assert_array_equal(read_observed(path, ScoreKind.LOGITS).values, values)


@given(arrays(np.float64, (8, 3), elements=st.floats(-50, 50)), st.integers(1, 5))
def test_rounded_numbers_are_at_most_half_a_step_off(
    tmp_path_factory: pytest.TempPathFactory, values: np.ndarray, decimals: int
) -> None:
    lines = [",".join(f"{value:.{decimals}f}" for value in row) for row in values]
    path = written(tmp_path_factory.mktemp("csv"), "y_0,y_1,y_2\n" + "\n".join(lines))
    observed = read_observed(path, ScoreKind.EMBEDDINGS)
    assert observed.step is not None or not values.any()
    if observed.step is not None:
        assert observed.step == pytest.approx(10.0**-decimals)
        assert np.abs(observed.values - values).max() <= observed.step / 2 * (1 + 1e-9)


@pytest.mark.parametrize(
    "text",
    [
        "input,score_0,score_1\n0,0.25,3.5\n1,1.5,2\n",
        "\ufeffinput,score_0,score_1\n0,0.25,3.5\n1,1.5,2\n",
        "input;score_0;score_1\r\n0;0.25;3.5\r\n1;1.5;2\r\n",
        'input\tscore_0\tscore_1\n0\t0.25\t3.5\n"1"\t1.5\t2\n',
        "\ninput, score_0, score_1\n\n0, 0.25, 3.5\n1, 1.5, 2",
        "# input score_0 score_1\n0 0.25 3.5\n1 1.5 2\n",
        ",Input,Score 0,SCORE-1\n0,0,0.25,3.5\n1,1,1.5,2\n",
    ],
)
def test_every_usual_way_of_writing_is_read_alike(tmp_path: Path, text: str) -> None:
    observed = read_observed(written(tmp_path, text))
    np.testing.assert_array_equal(observed.values, [[0.25, 3.5], [1.5, 2.0]])
    assert observed.rows.tolist() == [0, 1]


def test_compressed_and_utf16_files_are_read(tmp_path: Path) -> None:
    text = "score_0,score_1\n0.25,3.5\n"
    packed = read_observed(written(tmp_path, gzip.compress(text.encode()), "scores.csv.gz"))
    wide = read_observed(written(tmp_path, text.encode("utf-16"), "wide.csv"))
    np.testing.assert_array_equal(packed.values, wide.values)


def test_a_file_without_a_header_is_scores_in_order(tmp_path: Path) -> None:
    observed = read_observed(written(tmp_path, "0.25,3.5,-1.25\n1.5,2,0.75\n"))
    assert observed.columns is None
    assert observed.values.shape == (2, 3)


def test_one_column_of_class_numbers_is_labels(tmp_path: Path) -> None:
    observed = read_observed(written(tmp_path, "label\n3\n1\n7\n"))
    assert observed.kind is ScoreKind.LABELS
    assert observed.values.dtype == np.int64
    assert observed.values.tolist() == [3, 1, 7]


def test_scores_go_before_a_label_beside_them(tmp_path: Path) -> None:
    text = "label,prob_0,prob_1\n1,0.25,0.75\n0,0.625,0.375\n"
    observed = read_observed(written(tmp_path, text))
    assert observed.kind is ScoreKind.PROBABILITIES
    assert read_observed(written(tmp_path, text), ScoreKind.LABELS).values.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("\n\n", "no observation"),
        ("input,score_0\n", "a header and no observation"),
        ("a,b\n1,2\n3\n", r"1 cells and the first has 2 \(scores.csv, line 3\)"),
        ("input,score_0\n0,1.5\n1,x\n", r"'x' in column 'score_0' is no number \(scores.csv, line 3\)"),
        ("input;score_0\n0;1,5\n", "write a decimal point, not a decimal comma"),
        ("input,score_0\n0,1_000\n", "is no number"),
        ("input,score_0\n0,٣\n", "is no number"),
        ("input,score_0\n-1,0.5\n", r"numbered -1 \(scores.csv, line 2\)"),
        ("input,score_0\n,0.5\n", "does not say which input"),
        ("input,label\n0,cat\n", "the labels are names, 'cat'"),
        ("input,label\n0,1.5\n", "no class number"),
        ("score_0,score_0\n1,2\n", "two columns are called 'score_0'"),
        ("score_0,score_00\n1,2\n", "two columns are output 0"),
        ("input,batch_size,score_0\n0,0,0.5\n", "batch size of 0"),
        ("input,request\n0,1\n", "no column holds scores"),
        ("score_0,score_1\n,\nnan,\n", "no row has a score"),
        (b"a,b\n1,\xe9\n", r"byte 0xe9 \(scores.csv, line 2\)"),
        (b"\xff\xfea", "is not UTF-16"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_sentence(tmp_path: Path, text: str | bytes, says: str) -> None:
    with pytest.raises(UnreadableError, match=says) as caught:
        read_log(written(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="damaged"):
        read_log(written(tmp_path, gzip.compress(b"score\n0.5\n" * 50)[:-9], "scores.csv.gz"))
    with pytest.raises(UsageError, match="a folder"):
        read_log(tmp_path)
    with pytest.raises(UsageError, match="no such file"):
        read_log(tmp_path / "absent.csv")
    with pytest.raises(UsageError, match=r"cannot be read from a \.xlsx"):
        read_log(written(tmp_path, "x", "scores.xlsx"))


@given(st.binary(max_size=200))
def test_any_bytes_give_scores_or_one_sentence(tmp_path_factory: pytest.TempPathFactory, held: bytes) -> None:
    for name in ("a.csv", "a.jsonl", "a.npy", "a.npz", "a.csv.gz"):
        path = written(tmp_path_factory.mktemp("any"), held, name)
        try:
            read_log(path)
        except (UnreadableError, UsageError) as error:
            assert "\n" not in str(error)


def test_infinities_and_empty_rows_are_left_out_and_said(tmp_path: Path) -> None:
    observed = read_observed(written(tmp_path, "input,score_0,score_1\n0,inf,0.5\n1,,\n2,0.25,0.75\n"))
    assert observed.rows.tolist() == [0, 2]
    assert np.isnan(observed.values[0, 0])
    assert observed.remarks == ("1 infinite score is left out", "1 row without a score is left out")


def test_an_observation_of_an_input_that_is_not_given_is_refused(tmp_path: Path) -> None:
    observed = read_observed(written(tmp_path, "input,score_0\n0,0.5\n12,0.25\n"))
    check_rows(observed, 13)
    with pytest.raises(UnreadableError, match="observation 1 is of input 12"):
        check_rows(observed, 12)


def test_numbers_that_are_no_probabilities_are_refused_as_such(tmp_path: Path) -> None:
    logits = written(tmp_path, "a,b\n0.5,-4.459\n")
    with pytest.raises(UsageError, match=r"between 0 and 1, and there is -4\.459 .*leave out --scores probabilities"):
        read_observed(logits, ScoreKind.PROBABILITIES)
    rounded = written(tmp_path, "a,b\n1.0001,-0.0001\n", "rounded.csv")
    assert read_observed(rounded, ScoreKind.PROBABILITIES).kind is ScoreKind.PROBABILITIES
