"""The settings file of the README loads, and says what its comments say."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest
from test_readme import README, section

from bnaudit.policy import Policy, load
from bnaudit.results import Question, Severity


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Policy:
    monkeypatch.chdir(tmp_path)
    found = re.fullmatch(r"```toml\n(.*)```\n", section(README.read_text(encoding="utf-8"), "settings"), re.DOTALL)
    assert found is not None
    for name in ("models/resnet50.pt", "models/served.pt", "models/scratch/a.pt", "net.py", "samples.npz"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("def build(width): ...", encoding="utf-8")
    (tmp_path / ".bnaudit-baseline.json").write_text("{}", encoding="utf-8")
    (tmp_path / "bnaudit.toml").write_text(found[1], encoding="utf-8")
    return load(None, tmp_path, {}, today=date(2027, 2, 1))


def test_the_settings_of_the_readme_load(policy: Policy) -> None:
    assert policy.paths == (Path("models"),)
    assert policy.baseline == Path(".bnaudit-baseline.json")
    assert policy.excludes(Path("models/scratch/a.pt"))
    net = policy.settings(Path("models/resnet50.pt"))
    assert net.fail_on is Severity.WARNING
    assert (net.run.model, net.run.inputs, dict(net.run.model_args)) == ("net.py:build", "samples.npz", {"width": 16})
    assert set(net.require) == set(Question) - {Question.FROZEN}
    assert (net.limits["BN403"]["max_gap"], net.limits["BN404"]["mean_shift"]) == (0.1, 0.4)
    (entry,) = net.accept
    assert entry.expired
    served = policy.settings(Path("models/served.pt"))
    assert served.run.run
    assert set(served.require) == {Question.BUFFERS, Question.EVAL_MODE, Question.NEIGHBOURS}
