"""Checkpoints that torch.load does not take: pickles of arrays and folders of torch.distributed.checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bnaudit.errors import UnreadableError
from bnaudit.torch_session.checkpoint_files import checkpoint_tensors
from sample_models.catalogue import CANARY

HEALTHY = Path(__file__).parents[2] / "sample_models" / "healthy"
EXPECTED = torch.load(HEALTHY / "state_dict.pt", weights_only=True)
NEED_TRUST = ["detectron2_style.pkl", "distributed_checkpoint"]


@pytest.mark.parametrize("name", NEED_TRUST)
def test_its_tensors_are_those_of_the_state_dict_bit_for_bit(name: str) -> None:
    found = checkpoint_tensors(HEALTHY / name, trusted=True)
    assert {key.removeprefix("model."): value.dtype for key, value in found.items()} == {
        key: value.dtype for key, value in EXPECTED.items()
    }
    assert all(torch.equal(found[f"model.{key}"], value) for key, value in EXPECTED.items())


@pytest.mark.parametrize("name", NEED_TRUST)
def test_without_trust_it_is_not_unpickled(name: str) -> None:
    with pytest.raises(UnreadableError, match="--trust-pickle") as raised:
        checkpoint_tensors(HEALTHY / name, trusted=False)
    assert "\n" not in str(raised.value)


def test_a_hostile_pickle_does_nothing_without_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = f"touch {CANARY}".encode()
    path = tmp_path / "arrays.pkl"
    path.write_bytes(b"\x80\x02cposix\nsystem\nX" + len(command).to_bytes(4, "little") + command + b"\x85R.")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnreadableError):
        checkpoint_tensors(path, trusted=False)
    assert not (tmp_path / CANARY).exists()


@pytest.mark.parametrize(
    "name", ["state_dict_legacy.pth", "training_checkpoint.ckpt", "model.safetensors", "arrays.npz"]
)
def test_others_need_no_trust(name: str) -> None:
    assert any(
        torch.equal(value, EXPECTED["fc.weight"])
        for value in checkpoint_tensors(HEALTHY / name, trusted=False).values()
    )


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("content", [b"\x80", b"\x80\x04", b"\x80\x04\x95\x00", b"\x80\x04N."])
def test_a_broken_or_empty_pickle_is_one_sentence_or_no_tensors(content: bytes, trusted: bool, tmp_path: Path) -> None:
    path = tmp_path / "broken.pkl"
    path.write_bytes(content)
    if trusted and content.endswith(b"N."):
        assert checkpoint_tensors(path, trusted=True) == {}
        return
    with pytest.raises(UnreadableError) as raised:
        checkpoint_tensors(path, trusted=trusted)
    assert "\n" not in str(raised.value)
