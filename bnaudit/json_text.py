"""Values as JSON text that can be shown on any terminal and that no line break of a name divides."""

from __future__ import annotations

import json
import re
from typing import Any

_UNSEEN = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]")
"""Controls of terminals and of writing direction, and halves of characters: in JSON they can be written as escapes."""


def json_text(value: Any, indent: int | None = None) -> str:
    """The value as JSON, on one line without `indent`. Raises ValueError for NaN and infinities."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
