from __future__ import annotations

import pytest

from bnaudit.errors import UsageError
from bnaudit.exit_codes import exit_code


class Strange(BaseException):
    """What no `except Exception` catches."""


@pytest.mark.parametrize(
    ("raised", "code", "sentence"),
    [
        (UsageError("no such thing", remedy="give another"), 2, "bnaudit: no such thing: give another\n"),
        (KeyboardInterrupt(), 130, "bnaudit: interrupted\n"),
        (ZeroDivisionError("by\nnothing"), 2, "bnaudit: ZeroDivisionError: by nothing at test_exit_codes.py:"),
        (Strange("indeed"), 2, "bnaudit: Strange: indeed at test_exit_codes.py:"),
        (SystemExit(0), 2, "bnaudit: SystemExit: 0 at test_exit_codes.py:"),
    ],
)
def test_every_failure_is_one_sentence_and_never_a_success(
    raised: BaseException, code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> int:
        raise raised

    assert exit_code(command) == code
    shown = capsys.readouterr().err
    assert shown.startswith(sentence)
    assert shown.count("\n") == 1
