from __future__ import annotations

import pytest

from bnaudit.errors import UsageError
from bnaudit.results import Confidence, Severity
from bnaudit.settings import Settings, caps_from, check_selectors


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
    ids = ("BN101", "BN105", "BN201")
    assert check_selectors(["bn1", "BN201"], ids) == ("BN1", "BN201")
    with pytest.raises(UsageError, match=r"BN108.*did you mean BN10"):
        check_selectors(["BN108"], ids)


def test_caps_are_named_whole_numbers() -> None:
    assert caps_from(["value_bytes=10"]).value_bytes == 10
    with pytest.raises(UsageError, match="no cap is called 'bytes'"):
        caps_from(["bytes=10"])
    with pytest.raises(UsageError, match="whole number"):
        caps_from(["value_bytes=-1"])
