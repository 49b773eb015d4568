from __future__ import annotations

from pathlib import Path

import pytest

from bnaudit.errors import UsageError
from bnaudit.results import Acceptance, Confidence, Severity
from bnaudit.settings import Settings, caps_from, check_selectors, is_at


def test_rules_are_selected_and_ignored_by_prefix() -> None:
    settings = Settings(select=("BN1",), ignore=("BN102",))
    assert settings.selects("BN101")
    assert not settings.selects("BN102")
    assert not settings.selects("BN201")
    assert Settings().selects("BN901")


def test_layers_are_covered_with_and_without_their_wrappers() -> None:
    settings = Settings(layers=("layer4.*",))
    assert settings.covers("layer4.0.bn1")
    assert settings.covers("module.layer4.0.bn1")
    assert not settings.covers("layer3.0.bn1")
    assert settings.covers(None)


@pytest.mark.parametrize(
    ("minimum", "confidence", "capped"),
    [
        (Confidence.HIGH, Confidence.HIGH, Severity.ERROR),
        (Confidence.HIGH, Confidence.MEDIUM, Severity.WARNING),
        (Confidence.HIGH, Confidence.LOW, Severity.NOTE),
        (Confidence.MEDIUM, Confidence.MEDIUM, Severity.ERROR),
        (Confidence.MEDIUM, Confidence.LOW, Severity.WARNING),
        (Confidence.LOW, Confidence.LOW, Severity.ERROR),
    ],
)
def test_confidence_caps_the_severity(minimum: Confidence, confidence: Confidence, capped: Severity) -> None:
    settings = Settings(min_confidence=minimum)
    assert settings.cap(Severity.ERROR, confidence) is capped
    assert settings.cap(Severity.NOTE, confidence) is Severity.NOTE


def test_an_unknown_selector_is_an_error_that_names_the_nearest_rule() -> None:
    assert check_selectors(["bn1", "BN201"]) == ("BN1", "BN201")
    with pytest.raises(UsageError, match=r"BN1055.*did you mean BN105"):
        check_selectors(["BN1055"])


def test_caps_are_named_whole_numbers() -> None:
    assert caps_from(["value_bytes=10"]).value_bytes == 10
    with pytest.raises(UsageError, match="no cap is called 'bytes'"):
        caps_from(["bytes=10"])
    with pytest.raises(UsageError, match="whole number"):
        caps_from(["value_bytes=-1"])


def test_the_longest_prefix_gives_the_severity() -> None:
    settings = Settings(severities={"BN1": Severity.NOTE, "BN105": Severity.ERROR})
    assert settings.severity("BN105", Severity.WARNING) is Severity.ERROR
    assert settings.severity("BN101", Severity.ERROR) is Severity.NOTE
    assert settings.severity("BN201", Severity.WARNING) is Severity.WARNING


def acceptance(**fields: str | bool) -> Acceptance:
    return Acceptance(**{"source": "bnaudit.toml: accept[0]", "rule": "BN105", **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("known", "fits"),
    [
        (acceptance(), True),
        (acceptance(rule="BN1"), True),
        (acceptance(rule="BN2"), False),
        (acceptance(layer="layer4.*"), True),
        (acceptance(layer="layer3.*"), False),
        (acceptance(fingerprint="a" * 16), True),
        (acceptance(fingerprint="b" * 16), False),
        (acceptance(artifact="models/a.pt"), True),
        (acceptance(artifact="a.pt"), False),
    ],
)
def test_an_acceptance_fits_by_rule_layer_fingerprint_and_path(known: Acceptance, fits: bool, tmp_path: Path) -> None:
    known = Acceptance(**{**{field: getattr(known, field) for field in known._fields}, "root": str(tmp_path)})
    found = Settings(accept=(known,)).acceptance(
        "BN105", "module.layer4.0.bn1", "a" * 16, str(tmp_path / "models" / "a.pt")
    )
    assert (found is not None) is fits


def test_one_that_holds_goes_before_one_that_has_expired() -> None:
    over, holds = acceptance(expired=True), acceptance(reason="still known")
    assert Settings(accept=(over, holds)).acceptance("BN105", None, "", "a.pt") == holds
    assert Settings(accept=(over,)).acceptance("BN105", None, "", "a.pt") == over


def test_a_finding_on_a_whole_artifact_is_accepted_by_no_pattern_of_layers() -> None:
    assert Settings(accept=(acceptance(layer="bn*"),)).acceptance("BN105", None, "", "a.pt") is None


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("models/a.pt", True),
        ("models/*.pt", True),
        ("models", True),
        ("models/", True),
        ("./models/a.pt", True),
        ("models/../models//a.pt", True),
        (".", True),
        ("models/a.pt/*", True),
        ("/models/*", False),
        ("*", True),
        ("*.onnx", False),
        ("a.pt", False),
        ("model", False),
    ],
)
def test_paths_fit_patterns_below_the_root(
    pattern: str, fits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models").mkdir()
    monkeypatch.chdir(tmp_path / "models")
    assert is_at("a.pt", pattern, str(tmp_path)) is fits
    assert not is_at(str(tmp_path.parent / "a.pt"), ".", str(tmp_path))
    assert is_at("a.pt", f"{tmp_path.as_posix()}/models/*", str(tmp_path))
    assert is_at(str(tmp_path / "models" / "a.pt"), pattern, str(tmp_path)) is fits


def test_patterns_of_modules_hold_for_the_nodes_that_a_graph_has_of_them() -> None:
    settings = Settings(layers=("head*",), intended=(("BN301", "head"),), accept=(acceptance(layer="head"),))
    node = "/head/MatMul_1"
    assert settings.covers(node) and settings.intends("BN301", node)
    assert settings.acceptance("BN105", node, "", "a.pt") is not None
    assert not settings.covers("/tail/MatMul") and not settings.intends("BN301", "/MatMul")
