"""What a model raised, as one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from bnaudit.torch_session.failures import first_line, run_error


class _Token(nn.Module):
    """Puts a token before the sequence; a trace bakes the batch size in."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.zeros(1, 1, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.token.expand(int(x.shape[0]), -1, -1), x], 1)


class _Asserts(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert x.dim() == 2, "two axes are needed"
        return x


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_an_operator_that_fails_in_a_script_says_what_failed() -> None:
    traced: Any = torch.jit.trace(_Token(), torch.zeros(8, 3, 4), check_trace=False)  # type: ignore[no-untyped-call]
    with pytest.raises(RuntimeError) as raised:
        traced(torch.zeros(1, 3, 4))
    assert first_line(raised.value).startswith("Sizes of tensors must match except in dimension 1")
    said = str(run_error(raised.value, None))
    assert said.startswith("the model raised RuntimeError: Sizes of tensors") and "test_failures.py:" in said


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_an_error_without_its_message_shows_the_code(tmp_path: Path) -> None:
    traced: Any = torch.jit.trace(_Token(), torch.zeros(8, 3, 4), check_trace=False)  # type: ignore[no-untyped-call]
    torch.jit.save(traced, tmp_path / "trace.pt")
    loaded: Any = torch.jit.load(tmp_path / "trace.pt")  # type: ignore[no-untyped-call]
    for model, says in ((loaded, "torch.cat"), (traced, "failed in the TorchScript interpreter")):
        with pytest.raises(RuntimeError) as raised, _Watching():  # type: ignore[no-untyped-call]
            model(torch.zeros(1, 3, 4))
        assert says in first_line(raised.value)


class _Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def test_what_a_script_itself_raises_is_told() -> None:
    scripted = torch.jit.script(_Asserts())
    with pytest.raises(torch.jit.Error) as raised:
        scripted(torch.zeros(3))
    assert "two axes are needed" in first_line(raised.value)


@pytest.mark.parametrize(
    ("message", "sentence"), [("shapes differ\n  more", "shapes differ"), ("", "ValueError"), ("a:\n b", "a: b")]
)
def test_other_errors_begin_with_their_sentence(message: str, sentence: str) -> None:
    assert first_line(ValueError(message)) == sentence
