"""pytest-torch: the inference contract and assert_frozen as two tests, run by pytest; every check that fails."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import torch

TESTS = """
import torch
import pytest_torch_module
from pytest_torch import assert_frozen, check_inference_contract

def test_contract():
    check_inference_contract(pytest_torch_module.given["net"], pytest_torch_module.given["inputs"])

def test_frozen():
    names = pytest_torch_module.frozen(pytest_torch_module.given["net"])
    if names:
        labels = pytest_torch_module.given["labels"]
        loss = lambda output: torch.nn.functional.cross_entropy(output, labels)
        assert_frozen(pytest_torch_module.given["net"], pytest_torch_module.given["inputs"], loss, names)
"""
given = {}


def frozen(net: torch.nn.Module) -> list[str]:
    """Patterns for the layers without a parameter that trains: what their user means to be frozen."""
    found = []
    for name, module in net.named_modules():
        parameters = list(module.parameters())
        if name and parameters and not any(each.requires_grad for each in parameters):
            found.append(f"{name}.*")
    return found


class Failures:
    """A pytest plugin that keeps what failed."""

    def __init__(self) -> None:
        self.texts: list[tuple[str, str]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            if "AssertionError" not in str(report.longrepr.reprcrash.message):
                raise RuntimeError(f"{report.nodeid} could not run: {report.longrepr.reprcrash.message}")
            self.texts.append((report.nodeid.rpartition("::")[2], report.longreprtext))


def check(net, inputs, labels, batch):  # type: ignore[no-untyped-def]
    given.update(net=net, inputs=inputs[:batch], labels=labels[:batch])
    failures = Failures()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "test_model.py")
        path.write_text(TESTS, encoding="utf-8")
        pytest.main(
            [str(path), "-q", "-p", "no:cacheprovider", "--rootdir", folder, "-c", "/dev/null"], plugins=[failures]
        )
    problems = []
    for test, text in failures.texts:
        failed = [line.partition("[FAIL]")[2].strip() for line in text.splitlines() if "[FAIL]" in line]
        problems += [f"{test}: {name}" for name in dict.fromkeys(failed)] or [f"{test} failed"]
    return problems
