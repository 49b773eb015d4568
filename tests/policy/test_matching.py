"""What fits nothing is told, on real audits; where it cannot be known, nothing is said."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import torch
from policy_folders import TODAY
from torch import nn

from bnaudit.auditing import audit_targets, examine_live, report_of
from bnaudit.baseline import baseline_text, read_baseline
from bnaudit.policy import load, unmatched
from bnaudit.progress import Silent
from bnaudit.records import replace
from bnaudit.results import Acceptance, Report, Unmatched
from bnaudit.targets import expand

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6))
        self.prenet = nn.Sequential(nn.Linear(6, 6), nn.ReLU())
        self.noisy = nn.Identity()
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        x = self.noisy(self.prenet(self.stem(x)))
        return self.head(x)

def build():
    torch.manual_seed(0)
    return Net()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two state dicts, one with virgin statistics in `head.bn`, and the code of another."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    torch.manual_seed(0)
    virgin = {"head.bn.running_mean": torch.zeros(3), "head.bn.running_var": torch.ones(3)}
    trained = {"head.bn.weight": torch.rand(3) + 0.5, "head.bn.bias": torch.rand(3)}
    torch.save({**norm("stem.bn"), **trained, **virgin}, tmp_path / "models" / "bad.pt")
    torch.save(norm("stem.bn"), tmp_path / "models" / "good.pt")
    (tmp_path / "net.py").write_text(NET, encoding="utf-8")
    namespace: dict[str, Any] = {}
    exec(NET, namespace)
    net: nn.Module = namespace["build"]()
    for _ in range(40):
        net(torch.randn(16, 4))
    torch.save(net.state_dict(), tmp_path / "net.pt")
    return tmp_path


def norm(name: str) -> dict[str, torch.Tensor]:
    values = {"weight": torch.rand(3) + 0.5, "bias": torch.rand(3), "running_mean": torch.rand(3) + 0.1}
    values |= {"running_var": torch.rand(3) + 0.5, "num_batches_tracked": torch.tensor(1000)}
    return {f"{name}.{field}": value for field, value in values.items()}


def told(
    folder: Path,
    settings: str,
    paths: Sequence[str] = ("models",),
    typed: Mapping[str, object] | None = None,
    more: tuple[Acceptance, ...] = (),
    today: date = TODAY,
) -> tuple[Unmatched, ...]:
    (folder / "bnaudit.toml").write_text(settings, encoding="utf-8")
    policy = load(None, folder, typed or {}, today=today)
    report = audit_targets(expand(paths, policy.settings(None).caps), policy.settings, Silent())
    return unmatched(policy, report, more)


def test_a_mistyped_layer_is_an_error_with_the_nearest_one(folder: Path) -> None:
    (entry,) = told(folder, 'layers = ["hed.*", "stem.*"]')
    assert (entry.key, entry.error) == ("bnaudit.toml: layers", True)
    assert entry.why == "'hed.*' fits no layer of what was audited: did you mean head.*?"
    (entry,) = told(folder, "", typed={"layers": ["steem.bn"]})
    assert entry.key == "--layer steem.bn"
    assert entry.why.endswith("did you mean stem.bn?")


def test_a_mistyped_intended_pattern_is_an_error_where_its_rule_looked(folder: Path) -> None:
    (entry,) = told(folder, 'paths = ["models"]\n[intended]\nBN103 = ["hed.*"]')
    assert (entry.key, entry.error) == ("bnaudit.toml: intended.BN103", True)
    assert entry.why == "'hed.*' fits no layer or module of what was audited: did you mean head.*?"
    (typed,) = told(folder, "", typed={"intended": ["BN103=hed.*"]})
    assert (typed.key, typed.error) == ("--intended BN103=hed.*", True)


def test_settings_that_do_not_name_their_models_may_mean_others(folder: Path) -> None:
    (entry,) = told(folder, '[intended]\nBN103 = ["hed.*"]', ["models/good.pt"])
    assert (entry.key, entry.error) == ("bnaudit.toml: intended.BN103", False)
    (hiding,) = told(folder, 'layers = ["hed.*"]', ["models/good.pt"])
    assert hiding.error


@pytest.mark.parametrize(
    "settings",
    [
        'layers = ["*"]\n[intended]\nBN103 = "*"',
        'layers = ["head.*"]\n[intended]\nBN103 = "stem.*"',
        'layers = ["head"]',  # the module that holds the layer
        'ignore = ["BN103"]\n[intended]\nBN103 = "hed.*"',  # the rule did not look
        '[intended]\nBN302 = "hed.*"',  # it would need a run
        '[intended]\nBN = "hed.*"',  # some of them would
    ],
)
def test_what_fits_or_cannot_be_known_is_not_told(settings: str, folder: Path) -> None:
    assert told(folder, settings) == ()


def test_a_pattern_of_modules_is_judged_where_all_modules_are_known(folder: Path) -> None:
    settings = '[files."net.pt"]\nmodel = "net.py:build"\n[files."net.pt".intended]\nBN302 = {}'
    for pattern in ('"prenet.*"', '"noisy"', '"head"', '["stem.1", "prenet"]'):
        assert told(folder, settings.format(pattern), ["net.pt"]) == ()
    (entry,) = told(folder, settings.format('"prennet.*"'), ["net.pt"])
    assert entry.key == 'bnaudit.toml: files."net.pt".intended.BN302'
    assert entry.why.endswith("did you mean prenet.*?")


def test_what_is_about_artifacts_that_were_not_audited_is_not_told(folder: Path) -> None:
    settings = 'paths = ["models"]\nlayers = ["hed.*"]'
    assert told(folder, settings, ["models/good.pt"]) == ()
    assert len(told(folder, settings, ["models"])) == 1
    section = '[files."models/*.pt"]\nlayers = ["head.*"]'
    assert told(folder, section, ["models/good.pt"]) == ()
    assert told(folder, section, ["models"]) == ()
    assert len(told(folder, section.replace("head", "hed"), ["models"])) == 1
    assert len(told(folder, '[files."models/good.pt"]\nlayers = ["head.*"]', ["models"])) == 1


def test_nothing_is_judged_beside_a_file_that_could_not_be_read(folder: Path) -> None:
    (folder / "models" / "broken.pt").write_bytes(b"PK\x03\x04 and no more")
    assert told(folder, 'layers = ["hed.*"]\n[[accept]]\nrule = "BN106"\nreason = "x"') == ()


def test_an_interrupted_audit_judges_nothing(folder: Path) -> None:
    policy = load(None, folder, {"layers": ["hed.*"]})
    report = audit_targets(expand(["models"], policy.settings(None).caps), policy.settings, Silent())
    assert len(unmatched(policy, report, ())) == 1
    assert unmatched(policy, replace(report, interrupted=True), ()) == ()


ACCEPT = '[[accept]]\nreason = "known"\nrule = "{}"\n{}'


@pytest.mark.parametrize(
    ("rule", "more", "why"),
    [
        ("BN103", "", ""),
        ("BN103", 'layer = "head.*"\nfile = "models/bad.pt"', ""),
        ("BN103", "until = 2026-01-01", ""),  # expired, and shown at the finding
        ("BN106", "", "BN106 fits no finding: take it away"),
        ("BN103", 'layer = "stem.*"', "BN103 fits no finding: take it away"),
        ("BN103", 'file = "models/good.pt"', "BN103 in models/good.pt fits no finding: take it away"),
        ("BN103", 'file = "models/old.pt"', "BN103 in models/old.pt fits no file that exists: take it away, or"),
        ("BN103", 'file = "old/*"', "BN103 in old/* fits no file that exists"),
        ("BN106", "until = 2026-01-01", "BN106 expired on 2026-01-01 and fits no finding: take it away"),
        ("BN302", "", ""),  # it did not look
        ("BN10", "", ""),
    ],
)
def test_accepted_findings_that_are_gone_are_told(rule: str, more: str, why: str, folder: Path) -> None:
    entries = told(folder, ACCEPT.format(rule, more))
    assert [entry.error for entry in entries] == [False] * bool(why)
    for entry in entries:
        assert entry.key == "bnaudit.toml: accept[0]"
        assert entry.why.startswith(why)


def test_an_accepted_finding_may_be_in_what_was_not_audited_or_shown(folder: Path) -> None:
    settings = 'paths = ["models"]\n' + ACCEPT.format("BN103", "")
    assert told(folder, settings, ["models/good.pt"]) == ()
    assert told(folder, ACCEPT.format("BN103", 'file = "models/*.pt"'), ["models/good.pt"]) == ()
    assert told(folder, 'layers = ["stem.*"]\n' + ACCEPT.format("BN103", "")) == ()
    assert told(folder, 'ignore = ["BN106"]\n' + ACCEPT.format("BN106", "")) == ()


def test_a_baseline_is_judged_entry_by_entry(folder: Path) -> None:
    policy = load(None, folder, {})
    report = audit_targets(expand(["models"], policy.settings(None).caps), policy.settings, Silent())
    path = folder / "known.json"
    path.write_text(baseline_text(report, path), encoding="utf-8")
    assert told(folder, "", more=read_baseline(path)) == ()
    document = json.loads(path.read_text(encoding="utf-8"))
    (entries,) = document["artifacts"].values()
    entries.append({**entries[0], "rule": "BN106", "layer": "gone.bn", "fingerprint": "0" * 16})
    document["artifacts"]["models/old[[]1].pt"] = [entries[0]]
    path.write_text(json.dumps(document), encoding="utf-8")
    first, second = told(folder, "", more=read_baseline(path))
    assert first.why == "BN106 on gone.bn in models/bad.pt fits no finding: take it away"
    assert second.why.startswith("BN103 on head.bn in models/old[1].pt fits no file that exists")
    assert not first.error
    assert first.key == str(path)


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_an_entry_below_a_folder_that_is_a_link_is_judged_by_the_file_itself(folder: Path) -> None:
    (folder / "link").symlink_to("models")
    gone = Acceptance(source="b.json", rule="BN103", artifact="good.pt", root=str(folder / "link"))
    (entry,) = told(folder, "", more=(gone,))
    assert entry.why == "BN103 in good.pt fits no finding: take it away"


def test_a_live_model_is_judged_by_what_was_typed(folder: Path) -> None:
    policy = load(None, folder, {"model": "net.py:build", "intended": ["BN302=prennet.*", "BN306=prenet"]})
    settings = policy.settings(None)
    report: Report = report_of(examine_live(settings, Silent()), settings)
    (entry,) = unmatched(policy, report, ())
    assert entry.key == "--intended BN302=prennet.*"


def test_names_with_wrappers_are_known_by_both(folder: Path) -> None:
    torch.save(norm("module.stem.bn"), folder / "models" / "good.pt")
    (folder / "models" / "bad.pt").unlink()
    assert told(folder, 'layers = ["stem.*"]') == ()
    assert told(folder, 'layers = ["module.stem.*"]') == ()
