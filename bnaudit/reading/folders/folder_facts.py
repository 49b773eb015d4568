"""What the small files of a Hugging Face folder say of the model: who wrote it, how far it was trained."""

from __future__ import annotations

from pathlib import Path

from bnaudit.caps import Caps
from bnaudit.errors import UnreadableError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.checkpoints.optimizer_state import whole
from bnaudit.reading.json_text import parse_json, text_at

_LONGEST_JSON = 16 << 20
_VERSIONS = (("transformers_version", "transformers"), ("_diffusers_version", "diffusers"))


class FolderFacts:
    """Facts from config.json and trainer_state.json. A file that is not there or not JSON says nothing."""

    __slots__ = ("bytes_read", "has_optimizer", "producer", "steps")

    def __init__(self, folder: Path, names: list[str], caps: Caps) -> None:
        self.bytes_read = 0
        self.has_optimizer = any(name.startswith("optimizer") and name.endswith((".pt", ".bin")) for name in names)
        config = self._json(folder / "config.json", caps) if "config.json" in names else None
        written = ((label, text_at(config, key)[:40]) for key, label in _VERSIONS)
        self.producer = next((f"{label} {version}" for label, version in written if version), None)
        state = self._json(folder / "trainer_state.json", caps) if "trainer_state.json" in names else None
        self.steps = whole(state.get("global_step")) if isinstance(state, dict) else None

    def _json(self, path: Path, caps: Caps) -> object:
        try:
            with ByteSource.open(path, caps) as source:
                if source.size > _LONGEST_JSON:
                    return None
                value = parse_json(source)
                self.bytes_read += source.bytes_read
                return value
        except UnreadableError:
            return None
