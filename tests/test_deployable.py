from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import bnaudit
from bnaudit.deployable import NotDeployableError
from bnaudit.errors import UsageError
from bnaudit.results import Outcome, Question, Severity

SAMPLES = Path(__file__).parent.parent / "sample_models"
HEALTHY, VIRGIN = SAMPLES / "healthy" / "state_dict.pt", SAMPLES / "defects" / "virgin_statistics.pt"
DIGITS = {"model": f"{SAMPLES / 'digits.py'}:build", "inputs": str(SAMPLES / "digits.npz")}


class MeanOfTheBatch(nn.Module):
    """Subtracts the mean over the batch in eval mode too: a prediction depends on its neighbours."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x - x.mean(0))


def trained() -> nn.Module:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    for _ in range(200):
        net(torch.randn(64, 5))
    return net.eval()


def failure(*given: Any, **options: Any) -> NotDeployableError:
    with pytest.raises(AssertionError) as raised:
        bnaudit.assert_deployable(*given, **options)
    assert isinstance(raised.value, NotDeployableError)
    return raised.value


def test_a_live_model_that_may_be_deployed_gives_its_report() -> None:
    report = bnaudit.assert_deployable(trained(), torch.randn(64, 5))
    decided = {verdict.question: verdict.outcome for verdict in report.audits[0].verdicts}
    assert all(decided[question] is Outcome.PASSED for question in report.audits[0].required)
    assert report.audits[0].required == (Question.BUFFERS, Question.EVAL_MODE, Question.NEIGHBOURS)


def test_a_file_with_its_model_and_inputs_is_decided() -> None:
    assert bnaudit.assert_deployable(HEALTHY, **DIGITS).exit_code() == 0
    assert bnaudit.assert_deployable(HEALTHY, DIGITS["inputs"], model=DIGITS["model"]).exit_code() == 0
    assert bnaudit.assert_deployable(model=trained, inputs=torch.randn(64, 5)).exit_code() == 0


def test_the_users_model_comes_back_as_it_was() -> None:
    net = MeanOfTheBatch()
    inputs = torch.randn(32, 5)
    before, rng = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    failure(net, inputs)
    assert net.training
    assert torch.equal(torch.get_rng_state(), rng)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_a_failure_reads_like_the_terminal() -> None:
    error = failure(MeanOfTheBatch().eval(), torch.randn(32, 5))
    lines = str(error).splitlines()
    assert lines[0] == "not deployable: findings at or above warning"
    assert any(line.startswith("  failed  ") and "neighbours do not matter" in line for line in lines)
    assert any(line.startswith("error BN301 neighbour-dependent-prediction") for line in lines)
    assert lines[-1].endswith("exit 1: findings at or above warning")
    assert "→" in str(error) and "\x1b" not in str(error)
    assert max(map(len, lines)) <= 80
    assert error.report.findings[0].rule == "BN301"


def test_a_number_and_its_limit_stand_in_the_text(tmp_path: Path) -> None:
    net = nn.BatchNorm1d(4)
    net.running_var.fill_(-1.0)  # type: ignore[union-attr, operator]
    torch.save(net.state_dict(), tmp_path / "net.pt")
    text = str(failure(tmp_path / "net.pt", require="buffers"))
    assert "error BN107 negative-variance" in text and "-1" in text


def test_what_is_required_and_not_decided_fails_and_says_what_to_give() -> None:
    text = str(failure(HEALTHY))
    assert text.startswith("not deployable: eval-mode, neighbours required, and not decided\n")
    assert "eval-mode, neighbours not checked: a state dict holds no code; give the model:\n  model=factory" in text
    assert bnaudit.assert_deployable(HEALTHY, require="buffers").audits[0].undecided == ()
    assert bnaudit.assert_deployable(HEALTHY, require=()).exit_code() == 0
    assert len(failure(HEALTHY, require="all").report.audits[0].undecided) == 4


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("torchscript_scripted.pt", "run=True"),
        ("exported_program.pt2", "run=True"),
        ("pickled_module.pt", "trust_pickle=True"),
    ],
)
def test_what_a_file_needs_to_be_run_is_an_option_of_the_function(name: str, option: str) -> None:
    text = str(failure(SAMPLES / "healthy" / name))
    assert option in text.partition("\n\n")[0]
    given, _, value = option.partition("=")
    assert bnaudit.assert_deployable(SAMPLES / "healthy" / name, **{given: bool(value)}).exit_code() == 0


def test_an_accepted_finding_fails_nothing() -> None:
    options: dict[str, Any] = {"require": (), "fail_on": "note"}
    assert failure(VIRGIN, **options).report.exit_code() == 1
    report = bnaudit.assert_deployable(VIRGIN, accept={"BN103": "weights of the paper, ticket 12"}, **options)
    assert {finding.acceptance.reason for finding in report.findings if finding.acceptance} == {
        "weights of the paper, ticket 12"
    }
    assert failure(VIRGIN, accept={"BN103=layer1.*": "known"}, **options).report.worst is Severity.ERROR


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"require": "buffer"}, "require names no verdict with 'buffer': did you mean buffers?"),
        ({"require": ("buffers", "neighbors")}, "did you mean neighbours?"),
        ({"require": 3}, "require=3 holds no names of verdicts"),
        ({"fail_on": "warn"}, "fail_on='warn' is no level: there are note, warning, error"),
        ({"accept": {"BN103": ""}}, "accept['BN103'] gives no reason"),
        ({"accept": {"BN999": "why"}}, "no rule has an id that starts with 'BN999'"),
        ({"severities": {"BN999": "note"}}, "no rule has an id that starts with 'BN999'"),
        ({"severities": {"BN105": "none"}}, "severities['BN105']='none' is no level"),
    ],
)
def test_what_does_not_exist_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        bnaudit.assert_deployable(HEALTHY, **options)
    assert message in str(raised.value)


def test_an_unknown_option_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="did you mean batch_size"):
        bnaudit.assert_deployable(HEALTHY, batchsize=3)


def test_what_cannot_be_read_fails(tmp_path: Path) -> None:
    assert "does not exist" in str(failure(tmp_path / "none.pt"))
    (tmp_path / "model.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    error = failure(tmp_path / "model.h5")
    assert error.report.exit_code() == 3
    (tmp_path / "broken.pt").write_bytes(HEALTHY.read_bytes()[:500])
    assert failure(tmp_path / "broken.pt").report.exit_code() == 2


def test_several_files_are_named_where_they_are_not_decided() -> None:
    text = str(failure([HEALTHY, VIRGIN], require=("eval-mode",), ignore="BN1"))
    joined = " ".join(text.split())
    assert f"eval-mode of {HEALTHY} not checked" in joined and f"eval-mode of {VIRGIN} not checked" in joined


def test_ctrl_c_stops_the_test_run() -> None:
    class Stops(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bnaudit.assert_deployable(Stops(), torch.randn(32, 5))


def test_unittest_counts_it_as_a_failure_not_as_an_error(tmp_path: Path) -> None:
    (tmp_path / "test_models.py").write_text(
        "import unittest, bnaudit\n"
        "class Models(unittest.TestCase):\n"
        f"    def test_virgin(self): bnaudit.assert_deployable({str(VIRGIN)!r}, require='buffers')\n"
        "unittest.main()\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, tmp_path / "test_models.py"], capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == 1
    assert "FAILED (failures=1)" in done.stderr and "virgin-statistics (BN103)" in done.stderr


def test_a_pattern_of_layers_that_fits_none_hides_no_finding() -> None:
    nan = SAMPLES / "defects" / "nan_variance.pt"
    with pytest.raises(UsageError, match=r"layers='layer9\.\*' fits no layer"):
        bnaudit.assert_deployable(nan, require=(), layers=("bn1", "layer9.*"))
    with pytest.raises(NotDeployableError):
        bnaudit.assert_deployable(nan, require=(), layers="layer*")
