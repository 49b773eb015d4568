"""What each key refuses: the sentence names the key, what is wrong, and the nearest name or what to write."""

from __future__ import annotations

from pathlib import Path

import pytest
from policy_folders import policy_of

from bnaudit.errors import UsageError
from bnaudit.policy import load
from bnaudit.results import Confidence, Question, Severity

WRONG = {
    "fail_on = 1": "fail_on.*did you mean fail-on",
    "budgt = 1": r"no such setting \(bnaudit\.toml: budgt\): did you mean budget\?",
    "xyzzy = 1": "--show-settings` lists them",
    "[tool.bnaudit]": "stand at the top",
    'fail-on = "off"': r"'off' is no severity \(bnaudit\.toml: fail-on\): put the rule into `ignore`",
    'fail-on = "warnings"': r"bnaudit\.toml: fail-on.*did you mean warning\?",
    "fail-on = 2": 'needs a text, not a number.*write fail-on = "warning"',
    'min-confidence = "hihg"': "did you mean high",
    'require = ["bufers"]': r"'bufers' is no verdict \(bnaudit\.toml: require\): did you mean buffers\?",
    'require = ["all", "buffers"]': "'all' is no verdict",
    "require = 3": "a list of texts, not a number",
    "require = [3]": "needs a text, not a number",
    "max-gap = 0": "above 0",
    "max-gap = nan": "above 0",
    'max-gap = "0.1"': "a number, not a text",
    "max-gap = true": "a number, not true",
    'select = ["BN9x"]': r"'BN9x' \(bnaudit\.toml: select\): did you mean BN901\?",
    'ignore = "XX"': r"bnaudit\.toml: ignore.*bnaudit rules",
    'layers = [""]': r"empty \(bnaudit\.toml: layers\)",
    'layers = "a\\u0000b"': "null character",
    'severity = {BN105 = "off"}': r"bnaudit\.toml: severity\.BN105.*ignore",
    'severity = {BN1055 = "note"}': r"severity\.BN1055.*did you mean BN105",
    "severity = 1": "needs a table, not a number",
    "[limits.BN4044]\nmean_shift = 1": r"'BN4044' \(bnaudit\.toml: limits\.BN4044\): did you mean BN404",
    "[limits.BN404]\nmean_shft = 1": r"limits\.BN404\.mean_shft\): did you mean mean_shift",
    "[limits.BN101]\nx = 1": r"BN101 has no limit 'x'.*it has none",
    '[limits.BN404]\nmean_shift = "a"': "a number, not a text",
    "[limits.BN404]\nmean_shift = -1": "at least 0",
    "[limits.BN608]\nfactor = 3": r"BN608 is about two artifacts.*limits\.BN608\): take it away; `bnaudit compare`",
    'severity = {BN601 = "note"}': r"BN601 is about two artifacts, which no gate compares.*severity\.BN601",
    '[intended]\nBN6 = "bn1"': r"BN6 is about two artifacts.*intended\.BN6",
    "[limits]\nBN404 = 1": r"bnaudit\.toml: limits\.BN404",
    '[intended]\nBN3022 = "x"': r"intended\.BN3022.*did you mean BN302",
    "[intended]\nBN302 = 1": r"a list of texts, not a number \(bnaudit\.toml: intended\.BN302\)",
    'model = "net.py"': r"names no callable \(bnaudit\.toml: model\)",
    'model = "nett.py:build"': r"there is no file .*nett\.py \(bnaudit\.toml: model\)",
    "model-args = 1": "needs a table",
    'inputs = "gone.npz"': r"no such file of inputs \(bnaudit\.toml: inputs\)",
    "run = 1": "true or false, not a number",
    'static = "yes"': "true or false, not a text",
    "static = true\nrun = true": r"`static` runs nothing, and `run` asks for a run \(bnaudit\.toml: run\)",
    "batch-size = 0": r"at least 1 \(bnaudit\.toml: batch-size\)",
    "batch-size = 1.0": "a whole number, not a number",
    "batch-size = true": "a whole number, not true",
    "seed = -1": r"bnaudit\.toml: seed",
    "anchors = 0": r"bnaudit\.toml: anchors",
    "batch-axis = -1": r"bnaudit\.toml: batch-axis",
    "dim = {height = 0}": r"bnaudit\.toml: dim\.height.*height=224",
    "dim = {height = 2.5}": "a whole number, not a number",
    'budget = "60"\nbudgets = 1': "did you mean budget",
    'budget = "soon"': r"length of time above 0 \(bnaudit\.toml: budget\)",
    "budget = -1": "above 0",
    'device = "GPU 1"': r"names no device \(bnaudit\.toml: device\)",
    'custom-ops = ["ops.so"]': r"library of custom operators \(bnaudit\.toml: custom-ops\)",
    "caps = {value_byte = 1}": r"caps\.value_byte.*value_bytes",
    "caps = {value_bytes = 0}": "a whole number above 0",
    "caps = {value_bytes = 1.5}": "a whole number, not a number",
    'paths = ["modls"]': r"there is no modls \(bnaudit\.toml: paths\): did you mean models\?",
    'paths = ["modls/*.pt"]': "there is no modls",
    "paths = []\npaths = 1": "not TOML",
    "accept = 1": "needs entries, not a number",
    "accept = [1]": r"needs a table, not a number \(bnaudit\.toml: accept\[0\]\)",
    '[[accept]]\nrule = "BN105"': r"gives no reason \(bnaudit\.toml: accept\[0\]\): add reason",
    '[[accept]]\nreason = "x"': "gives no rule",
    '[[accept]]\nrule = "BN105"\nreason = " "': r"empty \(bnaudit\.toml: accept\[0\]\.reason\)",
    '[[accept]]\nrule = "BN1055"\nreason = "x"': r"accept\[0\]\.rule\): did you mean BN105",
    '[[accept]]\nrule = "BN105"\nreasn = "x"': r"no 'reasn' .*did you mean reason",
    '[[accept]]\nrule = "BN105"\nreason = "x"\nuntil = "soon"': r"'soon' is no day \(.*toml: accept\[0\]\.until\)",
    '[[accept]]\nrule = "BN105"\nreason = "x"\nuntil = "2027-02-30"': "'2027-02-30' is no day",
    '[[accept]]\nrule = "BN105"\nreason = "x"\nuntil = 2027-01-31T10:00:00': "no date",
    '[[accept]]\nrule = "BN105"\nreason = "x"\nuntil = 2027': "no date",
    "files = 1": r"needs a table, not a number \(bnaudit\.toml: files\)",
    'files = {"models/a.pt" = 1}': r"section needs a table.*\[files\.\"models/a\.pt\"\]",
    "[files.models.a]\nrun = true": r'a pattern needs quotes, \[files\."models\.a"\]',
    '[files."models/a.pt"]\nbaseline = "x"': r'single files \(bnaudit\.toml: files\."models/a\.pt"\.baseline\)',
    '[files."models/a.pt"]\nbudget = 0': r'\(bnaudit\.toml: files\."models/a\.pt"\.budget\)',
    '[files."models/a.pt"]\nseed = 1\nsede = 1': r'files\."models/a\.pt"\.sede\): did you mean seed',
    '[files."models/c.pt"]\nseed = 1': r'no file .*\(bnaudit\.toml: files\."models/c\.pt"\): did you mean models/',
    '[files."model/*.pt"]\nseed = 1': r"did you mean models/.\.pt",
    '[files."models/a.pt"]\npart = "ema"': r"`part` is about a model that is not given",
    "as-is = true": r"`as-is` is about a model that is not given \(bnaudit\.toml: as-is\)",
}


@pytest.mark.parametrize("settings", WRONG)
def test_what_is_wrong_is_told_with_its_place(settings: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=WRONG[settings]):
        policy_of(tmp_path, settings)


WRONG_TYPED: dict[str, tuple[dict[str, object], str]] = {
    "budget": ({"budget": "soon"}, r"\(--budget soon\): write 60s"),
    "fail-on": ({"fail-on": "eror"}, r"\(--fail-on eror\): did you mean error\?"),
    "require": ({"require": ["bufers"]}, r"\(--require\): did you mean buffers"),
    "limits": ({"limits": ["BN404.mean_shft=1"]}, r"\(--limit BN404\.mean_shft=1\): did you mean mean_shift"),
    "limit without a name": ({"limits": ["BN404=1"]}, "names no limit of BN404.*--limit BN404.mean-shift=0.4"),
    "limit without a value": ({"limits": ["BN404"]}, "gives a name no value.*write --limit"),
    "limit no number": ({"limits": ["BN404.mean_shift=a"]}, "needs a number"),
    "severity": ({"severity": ["BN105=bad"]}, "'bad' is no severity"),
    "intended of two": ({"intended": ["BN601=x"]}, r"BN601 is about two artifacts.*\(--intended\)"),
    "intended": ({"intended": ["BN3022=x"]}, r"\(--intended\): did you mean BN302"),
    "dim": ({"dim": ["height"]}, r"\(--dim\).*height=224"),
    "caps": ({"caps": ["value_bytes=x"]}, r"whole number above 0 \(--cap value_bytes=x\)"),
    "model": ({"model": "net:1"}, r"names no callable \(--model net:1\)"),
    "model-args": ({"model-args": "{"}, r"not JSON \(--model-args \{\)"),
    "layers": ({"layers": [""]}, r"\(--layer\)"),
    "contradiction": ({"static": True, "run": True}, r"`static` runs nothing.*\(--run\)"),
    "no model": ({"part": "ema"}, r"not given \(--part ema\): give it with --model net\.py:build"),
    "unknown": ({"budgt": "1"}, r"\(--budgt 1\): did you mean budget"),
}


@pytest.mark.parametrize("name", WRONG_TYPED)
def test_what_is_typed_wrong_is_told_with_the_option(name: str, tmp_path: Path) -> None:
    typed, message = WRONG_TYPED[name]
    with pytest.raises(UsageError, match=message):
        load(None, tmp_path, typed)


def test_every_kind_of_value_arrives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ops.so").write_bytes(b"")
    settings = policy_of(
        tmp_path,
        """
        fail-on = "error"
        require = "all"
        select = ["bn1", "BN302"]
        ignore = "BN112"
        layers = ["layer4.*"]
        min-confidence = "low"
        severity = {BN105 = "note", BN3 = "error"}
        limits = {bn404 = {mean-shift = 1, variance_ratio = 2.5}}
        model = "net.py:build"
        model-args = {width = 64, deep = [1, 2]}
        inputs = "net.py:batches"
        part = "ema"
        as-is = true
        run = true
        trust-pickle = true
        custom-ops = "ops.so"
        batch-size = 8
        anchors = 2
        batch-axis = 1
        dim = {height = 224, "odd name" = 3}
        training-batch-size = 32
        budget = 2.5
        seed = 7
        device = "cuda:1"
        caps = {value-bytes = 10}
        [intended]
        BN302 = ["prenet.*", "postnet.*"]
        BN306 = "*"
        """,
    ).settings(None)
    assert settings.fail_on is Severity.ERROR
    assert settings.require == tuple(Question)
    assert (settings.select, settings.ignore, settings.layers) == (("BN1", "BN302"), ("BN112",), ("layer4.*",))
    assert settings.min_confidence is Confidence.LOW
    assert dict(settings.severities) == {"BN105": Severity.NOTE, "BN3": Severity.ERROR}
    assert {rule: dict(limits) for rule, limits in settings.limits.items()} == {
        "BN404": {"mean_shift": 1.0, "variance_ratio": 2.5}
    }
    assert settings.intended == (("BN302", "prenet.*"), ("BN302", "postnet.*"), ("BN306", "*"))
    assert settings.caps.value_bytes == 10
    run = settings.run
    assert (run.model, run.inputs, run.part) == ("net.py:build", "net.py:batches", "ema")
    assert dict(run.model_args) == {"width": 64, "deep": [1, 2]}
    assert (run.as_is, run.run, run.trust_pickle, run.static) == (True, True, True, False)
    assert run.custom_ops == ("ops.so",)
    assert (run.batch_size, run.anchors, run.axis, run.training_batch_size) == (8, 2, 1, 32)
    assert dict(run.dims) == {"height": 224, "odd name": 3}
    assert (run.budget, run.seed, run.device) == (2.5, 7, "cuda:1")


def test_typed_tables_are_lists_of_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = policy_of(
        tmp_path,
        "",
        {
            "severity": ["BN105=error"],
            "limits": ["BN404.mean-shift=0.4", "BN105.share=0.1"],
            "intended": ["BN302=prenet.*", "BN306"],
            "dim": ["height=224"],
            "caps": ["value_bytes=12"],
            "model": "net.py:build",
            "model-args": '{"width": 64}',
            "budget": "500ms",
            "require": ["none"],
        },
    ).settings(None)
    assert dict(settings.severities) == {"BN105": Severity.ERROR}
    assert {rule: dict(limits) for rule, limits in settings.limits.items()} == {
        "BN404": {"mean_shift": 0.4},
        "BN105": {"share": 0.1},
    }
    assert settings.intended == (("BN302", "prenet.*"), ("BN306", "*"))
    assert (dict(settings.run.dims), settings.caps.value_bytes) == ({"height": 224}, 12)
    assert (dict(settings.run.model_args), settings.run.budget) == ({"width": 64}, 0.5)
    assert settings.require == ()
