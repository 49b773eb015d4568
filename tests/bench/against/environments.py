"""The rivals, pinned, each in a virtual environment of its own below .bench/, all with the torch of the benchmark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
BENCH = ROOT / ".bench"
RAW = BENCH / "rivals"
CONSTRAINTS = ROOT / ".ci" / "constraints.txt"
TORCH = "torch==2.13.0"


class Rival(NamedTuple):
    """A package to compare with."""

    package: str
    """With its version, as pip takes it."""
    imports: str
    """A statement that shows whether it can be used."""
    also: tuple[str, ...] = ()
    """What it needs beside what it declares, or in place of it."""
    alone: bool = False
    """Install it without what it declares."""
    why: str = ""
    """Why `also` and `alone`."""

    @property
    def name(self) -> str:
        return self.package.partition("==")[0]

    @property
    def folder(self) -> Path:
        return RAW / "environments" / self.name


RIVALS = {
    rival.name: rival
    for rival in (
        Rival("picklescan==1.0.5", "import picklescan"),
        Rival("model-clinic==0.4.2", "import model_clinic", (TORCH, "safetensors==0.8.0", "numpy>=1.26")),
        Rival("onnx-doctor==0.2.0", "import onnx_doctor"),
        Rival(
            "polygraphy==0.53.6",
            "import polygraphy, onnx, onnxruntime, onnx_graphsurgeon",
            ("onnx==1.23.2", "onnxruntime==1.32.0", "onnx-graphsurgeon==0.6.1", "colored"),
            why="what `check lint` imports is not declared",
        ),
        Rival("pytest-torch==1.1.1", "import pytest_torch", (TORCH,)),
        Rival("torchtest2==0.1.0", "import torchtest2", (TORCH,)),
        Rival(
            "lightning-bolts==0.7.0",
            "import lightning_bolts_verification",
            (TORCH, "pytorch-lightning==1.9.5", "setuptools<81", "lightning-utilities", "numpy>=1.26"),
            alone=True,
            why="it needs a torchvision that fits this torch, and pkg_resources; its gradient check needs neither "
            "torchvision nor the rest of the package, and is imported without them",
        ),
    )
}


def python(name: str) -> str:
    """The interpreter of a rival's environment; "": the benchmark's own."""
    return str(RIVALS[name].folder / "bin" / "python") if name else sys.executable


def script(name: str, command: str) -> str:
    """A command that a rival installs; "": one of the benchmark's own environment."""
    return str(Path(python(name)).with_name(command))


def installed(rival: Rival) -> str:
    """Install a rival unless it is there. Returns "" or, in one line, why it cannot be used."""
    done = rival.folder / ".installed"
    wanted = "\n".join([rival.package, *rival.also])
    try:
        if not done.exists() or done.read_text(encoding="utf-8") != wanted:
            _install(rival)
            done.write_text(wanted, encoding="utf-8")
        _call([python(rival.name), "-W", "ignore", "-c", f"{_DRIVERS}{rival.imports}\n{_CHECK}"])
    except subprocess.CalledProcessError as error:
        lines = [line.strip() for line in str(error.stderr).splitlines() if line.strip()]
        return (lines or [str(error)])[-1][:300]
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)[:300]
    return ""


_DRIVERS = f"import sys; sys.path.insert(0, {str(Path(__file__).with_name('drivers'))!r})\n"
_CHECK = f"""
from importlib.metadata import PackageNotFoundError, version
try:
    found = version("torch").partition("+")[0]
except PackageNotFoundError:
    found = None
assert found in (None, {TORCH.partition("==")[2]!r}), f"another torch was installed: {{found}}"
"""


def _install(rival: Rival) -> None:
    _call([sys.executable, "-m", "venv", "--clear", str(rival.folder)])
    pip = [python(rival.name), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += ["--constraint", str(CONSTRAINTS)]
    if rival.also:
        _call([*pip, *rival.also, *([] if rival.alone else [rival.package])])
    if rival.alone or not rival.also:
        _call([*pip, *(["--no-deps"] if rival.alone else []), rival.package])


def _call(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=900)
    return done.stdout


def versions(name: str, packages: Sequence[str]) -> dict[str, str]:
    """Versions of the packages that are there, in a rival's environment."""
    code = (
        "import sys\nfrom importlib.metadata import PackageNotFoundError, version\n"
        "for name in sys.argv[1:]:\n"
        "    try: print(name, version(name))\n"
        "    except PackageNotFoundError: pass\n"
    )
    lines = _call([python(name), "-c", code, *packages]).splitlines()
    return dict(line.split(" ", 1) for line in lines)
