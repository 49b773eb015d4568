from __future__ import annotations

from pathlib import Path

import pytest
import torch
from policy_folders import TODAY, folder_with, policy_of

from bnaudit.errors import UsageError
from bnaudit.policy import load
from bnaudit.results import Question, Severity


def test_a_gate_has_defaults_of_its_own(tmp_path: Path) -> None:
    policy = load(None, tmp_path, {})
    settings = policy.settings(None)
    assert settings.fail_on is Severity.WARNING
    assert settings.require == (Question.BUFFERS,)
    assert (policy.source, policy.root, policy.paths, policy.baseline) == ("", tmp_path, (), None)


@pytest.mark.parametrize(
    "asked", ["run = true", "trust-pickle = true", 'model = "net.py:build"', 'inputs = "net.py:build"']
)
def test_where_a_run_is_asked_for_its_verdicts_are_required(asked: str, tmp_path: Path) -> None:
    policy = policy_of(tmp_path, f'[files."models/a.pt"]\n{asked}')
    run = (Question.BUFFERS, Question.EVAL_MODE, Question.NEIGHBOURS)
    assert policy.settings(tmp_path / "models" / "a.pt").require == run
    assert policy.settings(tmp_path / "models" / "b.pt").require == (Question.BUFFERS,)
    (tmp_path / "ops.so").write_bytes(b"")
    operators = policy_of(tmp_path, '[files."models/a.pt"]\ncustom-ops = "ops.so"')
    assert operators.settings(tmp_path / "models" / "a.pt").require == (Question.BUFFERS,)
    chosen = policy_of(tmp_path, f'require = ["frozen"]\n[files."models/a.pt"]\n{asked}')
    assert chosen.settings(tmp_path / "models" / "a.pt").require == (Question.FROZEN,)


@pytest.mark.parametrize(
    ("asked", "required"),
    [
        ('ignore = ["BN105"]', (Question.EVAL_MODE, Question.NEIGHBOURS)),  # BN105 decides the buffers
        ('select = ["BN1"]', (Question.BUFFERS,)),
        ('ignore = ["BN901"]', (Question.BUFFERS, Question.EVAL_MODE, Question.NEIGHBOURS)),  # it decides none
        ('ignore = ["BN105"]\nrequire = ["buffers"]', (Question.BUFFERS,)),
    ],
)
def test_by_default_nothing_is_required_that_ignored_rules_leave_open(
    asked: str, required: tuple[Question, ...], tmp_path: Path
) -> None:
    policy = policy_of(tmp_path, f'{asked}\nmodel = "net.py:build"')
    assert policy.settings(None).require == required


def test_a_largest_gap_requires_its_verdict(tmp_path: Path) -> None:
    settings = policy_of(tmp_path, "max-gap = 0.2\n[limits.BN403]\nsamples = 8").settings(None)
    assert settings.require == (Question.BUFFERS, Question.GAP)
    assert dict(settings.limits["BN403"]) == {"samples": 8.0, "max_gap": 0.2}


def test_paths_in_the_file_start_at_its_folder_and_typed_ones_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_with(tmp_path, 'model = "net.py:build"\ninputs = "data/x.npy"\npaths = ["models"]', ("net.py", "data/x.npy"))
    (tmp_path / "models").mkdir()
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "net.py").write_text("def other(): ...", encoding="utf-8")
    monkeypatch.chdir(inner)
    run = load(None, inner, {}).settings(None).run
    assert isinstance(run.model, str)
    assert isinstance(run.inputs, str)
    assert Path(run.model.rpartition(":")[0]).resolve() == tmp_path / "net.py"
    assert Path(run.inputs).resolve() == tmp_path / "data" / "x.npy"
    assert load(None, inner, {}).paths == (Path("..", "models"),)
    assert load(None, inner, {"model": "net.py:other"}).settings(None).run.model == "net.py:other"


def test_a_module_below_the_settings_is_found_from_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_with(tmp_path, 'model = "package.net:build"\n', ("package/__init__.py", "package/net.py"))
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    assert load(None, Path.cwd(), {}).settings(None).run.model == f"{Path('..', 'package', 'net.py')}:build"


def test_without_paths_the_models_of_the_sections_are_audited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder_with(
        tmp_path,
        'exclude = ["models/old.pt"]\n[files."models/*.pt"]\nseed = 1\n[files."single.pt"]\nseed = 2',
        ("models/notes.txt", "other/c.pt"),
    )
    for name in ("models/a.pt", "models/old.pt", "single.pt"):
        torch.save({"bn.running_mean": torch.zeros(2)}, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    policy = load(None, tmp_path, {})
    assert policy.paths == (Path("models", "a.pt"), Path("single.pt"))
    assert policy.excludes(Path("models", "old.pt"))
    assert not policy.excludes(Path("models", "a.pt"))


def test_a_baseline_that_is_not_there_is_told_when_it_is_wanted(tmp_path: Path) -> None:
    policy = policy_of(tmp_path, 'baseline = "known.json"')
    with pytest.raises(UsageError, match=r"no baseline .*known\.json.*baseline\): `bnaudit baseline create -o"):
        _ = policy.baseline
    (tmp_path / "known.json").write_text("{}", encoding="utf-8")
    assert policy.baseline is not None
    assert policy.baseline.resolve() == tmp_path / "known.json"


@pytest.mark.parametrize(
    ("until", "expired"),
    [
        ("2026-06-14", True),
        ("2026-06-15", False),
        ("2026-06-16", False),
        ('"2025-12-31"', True),
        ('"2027-01-01"', False),
    ],
)
def test_an_accepted_finding_holds_until_its_last_day_is_over(until: str, expired: bool, tmp_path: Path) -> None:
    policy = policy_of(tmp_path, f'[[accept]]\nrule = "bn105"\nreason = "known"\nuntil = {until}')
    (entry,) = policy.settings(None).accept
    assert entry.expired is expired
    assert (entry.rule, entry.reason, entry.until) == ("BN105", "known", until.strip('"'))
    assert (entry.layer, entry.artifact, entry.root) == ("*", "*", str(tmp_path))
    assert entry.source.endswith("bnaudit.toml: accept[0]")


def test_accepted_findings_keep_their_order_and_patterns(tmp_path: Path) -> None:
    entries = """
    [[accept]]
    rule = "BN1"
    layer = "head.*"
    file = "models/a.pt"
    reason = "one"
    [[accept]]
    rule = "BN2"
    reason = "two"
    """
    first, second = policy_of(tmp_path, entries).settings(tmp_path / "models" / "a.pt").accept
    assert (first.layer, first.artifact, first.until, first.expired) == ("head.*", "models/a.pt", "", False)
    assert second.source.endswith("accept[1]")


def test_pyproject_has_the_same_settings_under_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "pyproject.toml"
    path.write_text("[tool.bnaudit]\nseed = 3\n", encoding="utf-8")
    policy = load(None, tmp_path, {})
    assert (policy.source, policy.settings(None).run.seed) == ("pyproject.toml", 3)
    path.write_text("[tool.bnaudit]\nsede = 3\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"\(pyproject\.toml: tool\.bnaudit\.sede\): did you mean seed\?"):
        load(None, tmp_path, {})


def test_settings_of_like_artifacts_are_made_once(tmp_path: Path) -> None:
    policy = policy_of(tmp_path, '[files."models/*.pt"]\nseed = 1')
    assert policy.settings(tmp_path / "models" / "a.pt") is policy.settings(tmp_path / "models" / "b.pt")


def test_a_section_may_name_a_file_with_the_characters_of_a_pattern(tmp_path: Path) -> None:
    folder_with(tmp_path, '[files."models/[1].pt"]\nseed = 5', ("models/[1].pt", "models/1.pt"))
    policy = load(None, tmp_path, {}, today=TODAY)
    assert policy.settings(tmp_path / "models" / "[1].pt").run.seed == 5


@pytest.mark.parametrize(
    ("settings", "typed", "gap"),
    [
        ("max-gap = 0.5", {"limits": ["BN403.max-gap=0.01"]}, 0.01),
        ("limits = {BN403 = {max_gap = 0.01}}", {"max-gap": 0.5}, 0.5),
        ('max-gap = 0.5\n[files."models/a.pt".limits.BN403]\nmax_gap = 0.01', {}, 0.01),
        ('limits = {BN403 = {max_gap = 0.5}}\n[files."models/a.pt"]\nmax-gap = 0.01', {}, 0.01),
    ],
)
def test_of_two_ways_to_say_the_largest_gap_the_nearer_one_holds(
    settings: str, typed: dict[str, object], gap: float, tmp_path: Path
) -> None:
    found = policy_of(tmp_path, settings, typed).settings(tmp_path / "models" / "a.pt")
    assert found.limits["BN403"]["max_gap"] == gap
    assert Question.GAP in found.require


def test_a_largest_gap_that_is_said_twice_in_one_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the same"):
        policy_of(tmp_path, "max-gap = 0.5\nlimits = {BN403 = {max_gap = 0.1}}")


def test_a_typed_gap_is_required_whatever_the_file_does_not_require(tmp_path: Path) -> None:
    assert policy_of(tmp_path, 'require = "none"', {"max-gap": 0.1}).settings(None).require == (Question.GAP,)
    assert policy_of(tmp_path, 'require = "none"\nmax-gap = 0.1').settings(None).require == ()
    assert policy_of(tmp_path, "max-gap = 0.1", {"require": ["none"]}).settings(None).require == ()


@pytest.mark.parametrize(("settings", "typed"), [("require = []", {}), ("", {"require": []})])
def test_no_verdict_at_all_has_to_be_said(settings: str, typed: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="names no verdict"):
        policy_of(tmp_path, settings, typed)
    assert 'require = "none"' in policy_of(tmp_path, 'require = "none"').shown(())
