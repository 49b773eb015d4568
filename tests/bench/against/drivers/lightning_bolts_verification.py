"""Lightning-Bolts' gradient check: the gradient of one output with respect to the other samples has to be zero.

`pl_bolts.callbacks` imports all models and data sets of the package, and with them torchvision. The check itself needs
only torch and pytorch-lightning: its two packages are made without running their `__init__`.
"""

from __future__ import annotations

import importlib.util
import sys
import types
import warnings
from pathlib import Path

warnings.simplefilter("ignore")
_spec = importlib.util.find_spec("pl_bolts")
if _spec is None or _spec.origin is None:
    raise ModuleNotFoundError("No module named 'pl_bolts'")
for _name, _folder in (("pl_bolts", "."), ("pl_bolts.callbacks", "callbacks")):
    _package = types.ModuleType(_name)
    _package.__path__ = [str(Path(_spec.origin).parent / _folder)]
    sys.modules[_name] = _package

from pl_bolts.utils import BatchGradientVerification  # noqa: E402


def check(net, inputs, labels, batch):  # type: ignore[no-untyped-def]
    independent = BatchGradientVerification(net).check(inputs[:batch])
    return [] if independent else ["the gradient of a sample's output reaches other samples, or not its own input"]
