"""Every tool of the comparison: the form it takes, its command, and how its output is read."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from bench.against import found
from bench.against.environments import python, script

DRIVERS = Path(__file__).with_name("drivers")


class Tool(NamedTuple):
    """One line of a table."""

    name: str
    form: str
    """".pt", ".safetensors", ".onnx" (files); "module" (a live one)."""
    rival: str
    """The environment it runs in; "": the benchmark's own."""
    command: tuple[str, ...]
    """Before the file; a live module has the name of its driver."""
    read: found.Reader = found.driver
    sizes: bool = True
    """Whether it is timed, on files of growing size or on the ResNet-50."""
    fixtures: str = ""
    """Which form of the nine nets it gets: "state.pt", "module.pt", "onnx", or "": none."""

    @property
    def ours(self) -> bool:
        return self.name.startswith("bnaudit")

    def argv(self, path: Path, inputs: Path | None = None) -> list[str]:
        """The whole command on one file."""
        if self.form == "module":
            return [
                python(self.rival),
                "-W",
                "ignore",
                str(DRIVERS / "module.py"),
                *self.command,
                str(path),
                str(inputs),
            ]
        more = ["--inputs", str(inputs)] if inputs is not None and "--static" not in self.command and self.ours else []
        return [*self.command, str(path), *more]


def _driver(file: str, *arguments: str) -> tuple[str, ...]:
    return (python(""), str(DRIVERS / file), *arguments)


def _bnaudit(*arguments: str) -> tuple[str, ...]:
    return (script("", "bnaudit"), "inspect", *arguments)


def tools() -> list[Tool]:
    """All, bnaudit first within each form."""
    static = _bnaudit("--static", "--format", "json")
    lint = (script("polygraphy", "polygraphy"), "check", "lint")
    doctor = (script("onnx-doctor", "onnx-doctor"), "check", "--output-format", "json")
    exam = (script("model-clinic", "model-clinic"), "exam")
    scan = (script("picklescan", "picklescan"), "--path")
    state, files = _driver("loop_state_dict.py"), found.driver
    return [
        Tool("bnaudit inspect --static", ".pt", "", static, found.bnaudit, fixtures="state.pt"),
        Tool("torch.load + loop", ".pt", "", (*state, "plain"), files, fixtures="state.pt"),
        Tool("torch.load(mmap) + loop", ".pt", "", (*state, "mmap"), files),
        Tool("picklescan", ".pt", "picklescan", scan, found.picklescan, fixtures="state.pt"),
        Tool("model-clinic exam", ".pt", "model-clinic", exam, found.model_clinic, fixtures="state.pt"),
        Tool("bnaudit inspect --static, pickled module", ".pt", "", static, found.bnaudit, False, "module.pt"),
        Tool("picklescan, pickled module", ".pt", "picklescan", scan, found.picklescan, False, "module.pt"),
        Tool("bnaudit inspect --static", ".safetensors", "", static, found.bnaudit),
        Tool("safetensors load_file + loop", ".safetensors", "", (*state, "safetensors")),
        Tool("safetensors safe_open + loop", ".safetensors", "", (*state, "numpy")),
        Tool("model-clinic exam", ".safetensors", "model-clinic", exam, found.model_clinic),
        Tool("bnaudit inspect --static", ".onnx", "", static, found.bnaudit),
        Tool("bnaudit inspect (runs it)", ".onnx", "", _bnaudit("--format", "json"), found.bnaudit, False, "onnx"),
        Tool("onnx.load + loop", ".onnx", "", _driver("loop_onnx.py", "load"), fixtures="onnx"),
        Tool("onnx.checker", ".onnx", "", _driver("loop_onnx.py", "check"), fixtures="onnx"),
        Tool("onnx-doctor check", ".onnx", "onnx-doctor", doctor, found.onnx_doctor, fixtures="onnx"),
        Tool("polygraphy check lint", ".onnx", "polygraphy", lint, found.polygraphy, fixtures="onnx"),
        Tool("bnaudit.audit", "module", "", ("bnaudit_module",), fixtures="module.pt"),
        Tool("hand-written loop", "module", "", ("hand_written",), fixtures="module.pt"),
        Tool("hand-written for these eight", "module", "", ("hand_written_all",), fixtures="module.pt"),
        Tool("pytest-torch", "module", "pytest-torch", ("pytest_torch_module",), fixtures="module.pt"),
        Tool("torchtest2", "module", "torchtest2", ("torchtest2_module",), fixtures="module.pt"),
        Tool(
            "lightning-bolts gradient check",
            "module",
            "lightning-bolts",
            ("lightning_bolts_verification",),
            fixtures="module.pt",
        ),
    ]
