"""Every number on the page is PyTorch's own: computed here by its layers, then looked for in the text."""

from __future__ import annotations

import re

import pytest
import torch

from bnaudit.plugins import names
from bnaudit.rules import rule_id
from bnaudit.worked_arithmetic import worked_example

PAGE = worked_example()


def _norm(momentum: float | None = 0.1, eps: float = 1e-5) -> torch.nn.BatchNorm1d:
    return torch.nn.BatchNorm1d(1, eps=eps, momentum=momentum).double()


def _column(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64).reshape(-1, 1)


def _section(title: str) -> str:
    (section,) = (text for text in PAGE.split("\n## ")[1:] if title in text.split("\n", 1)[0])
    return section


def _cells(section: str) -> list[list[str]]:
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def _minus(text: str) -> str:
    return text.replace("-", "−")


@pytest.mark.parametrize("eps", [1e-5, 1e-20])
def test_the_training_table_is_a_training_forward(eps: float) -> None:
    batch = _column(2, 4, 6, 8)
    plain, scaled = _norm(eps=eps), _norm(eps=eps)
    with torch.no_grad():
        scaled.weight.fill_(2.0)
        scaled.bias.fill_(1.0)
        rows = zip(batch[:, 0].tolist(), plain(batch)[:, 0].tolist(), scaled(batch)[:, 0].tolist(), strict=True)
    assert _cells(_section("A training step")) == [
        [f"{x:g}", _minus(f"{p:.5f}"), _minus(f"{s:.5f}")] for x, p, s in rows
    ]


def test_the_digits_of_the_training_step() -> None:
    section = _section("A training step")
    batch = _column(2, 4, 6, 8)
    assert (batch.mean().item(), batch.var(correction=0).item()) == (5.0, 5.0)
    assert f"20/3 = {batch.var().item():.5f}" in section
    for digits in ("−1.34164", "−0.44721", "1.34164", "−1.68328, 0.10558, 1.89442, 3.68328"):
        assert digits in section
    alone = _norm()(_column(2, 4))[0].item()
    together = _norm()(batch)[0].item()
    assert f"it becomes {_minus(f'{alone:.2f}')} instead of {_minus(f'{together:.2f}')}" in section


def test_the_running_table_is_what_pytorch_stores() -> None:
    norm = _norm()
    expected = [["(none yet)", "", "", "0", "1", "0"]]
    for values in ((2, 4), (6, 8)):
        batch = _column(*values)
        norm(batch)
        seen = [f"{batch.mean().item():g}", f"{batch.var().item():g}"]
        stored = [f"{norm.running_mean.item():g}", f"{norm.running_var.item():g}", str(norm.num_batches_tracked.item())]
        expected.append([f"({values[0]}, {values[1]})", *seen, *stored])
    section = _section("the running update")
    assert _cells(section) == expected
    assert [row[3:5] for row in expected] == [["0", "1"], ["0.3", "1.1"], ["0.97", "1.19"]]
    for sum_ in ("0.1 · 3 = 0.3,", "0.1 · 7 = 0.97;", "0.1 · 2 = 1.1,", "0.1 · 2 = 1.19."):
        assert sum_ in section


def test_the_same_activation_in_training_and_in_eval() -> None:
    norm = _norm()
    norm(_column(2, 4))
    in_training = norm(_column(6, 8))[0].item()
    norm.eval()
    in_eval = norm(_column(6, 8))[0].item()
    section = _section("Eval: the file decides")
    assert f"**{_minus(f'{in_training:.0f}')}** in training" in section
    assert f"**{in_eval:.2f}** in eval" in section
    assert (round(in_training, 4), round(in_eval, 2)) == (-1.0, 4.61)
    slope = (norm(_column(1)) - norm(_column(0))).item()
    assert f"{slope:.5f} · x {_minus(f'- {-norm(_column(0)).item():.5f}')}" in section


def test_the_cumulative_average() -> None:
    norm, means, variances = _norm(momentum=None), [], []
    for values in ((2, 4), (6, 8)):
        norm(_column(*values))
        means.append(f"{norm.running_mean.item():g}")
        variances.append(f"{norm.running_var.item():g}")
    section = _section("momentum=None")
    assert f"Running mean: {means[0]}, then {means[1]}." in section
    assert f"Running variance: {variances[0]}, then {variances[1]}." in section
    assert (means, variances) == (["3", "5"], ["2", "2"])


def test_the_shares_left_are_what_zero_batches_leave() -> None:
    norms = {m: _norm(m) for m in (0.1, 0.01, 0.001)}
    rows = {int(row[0].replace(",", "")): row[1:] for row in _cells(_section("initial values is left"))}
    for n in range(1, max(rows) + 1):
        for norm in norms.values():
            norm(torch.zeros(2, 1, dtype=torch.float64))
        for printed, norm in zip(rows.get(n, ()), norms.values(), strict=n in rows):
            share = norm.running_var.item()
            digits = float(printed.removeprefix("< ").removesuffix(" %"))
            assert share * 100 < digits if printed.startswith("<") else digits == pytest.approx(share * 100, rel=0.02)


def test_the_momentum_table_gives_one_update() -> None:
    section = _section("One word")
    norm = _norm(0.1)
    norm(_column(2, 4))
    for _, formula, momentum in _cells(section):
        value = formula.replace("−", "-").replace("·", "*").replace("old", "0").replace("new", "3")
        value = value.replace("m", momentum)
        left, right = value.split(" + ")
        total = sum(_product(term) for term in (left, right))
        assert total == pytest.approx(norm.running_mean.item())
    wrong = _norm(0.9)
    wrong(_column(2, 4))
    assert f"the mean to {wrong.running_mean.item():g} instead of\n{norm.running_mean.item():g}" in section


def _product(term: str) -> float:
    numbers = [float(number) for number in re.findall(r"[\d.]+", term)]
    return (numbers[0] - numbers[1]) * numbers[2] if "(" in term else numbers[0] * numbers[1]


def test_values_per_channel() -> None:
    for shape, _, values, ratio in _cells(_section("How many values")):
        sizes = [int(size) for size in shape.strip("()").split(", ")]
        first_channel = torch.rand(sizes, dtype=torch.float64)[:, 0]
        assert f"{first_channel.numel():,}" == values
        assert f"{(first_channel.var() / first_channel.var(correction=0)).item():.5f}" == ratio


def test_gains_at_two_epsilons() -> None:
    for variance, *gains, _ in _cells(_section("Where epsilon matters")):
        for eps, gain in zip((1e-5, 1e-3), gains, strict=True):
            norm = _norm(eps=eps).eval()
            norm.running_var.fill_(float(variance))
            assert f"{norm(_column(1)).item():.5g}" == gain


def test_a_shifted_input_moves_by_two_deviations() -> None:
    norm = _norm().eval()
    norm.running_mean.fill_(20)
    norm.running_var.fill_(25)
    before, after = norm(_column(30, 40))[:, 0].tolist()
    section = _section("When the input moves")
    assert f"so 30 becomes {before:.0f}." in section
    assert f"is now 40 and becomes {after:.0f}." in section
    assert (round(before, 4), round(after, 4)) == (2.0, 4.0)


def test_the_page_fits_a_terminal() -> None:
    prose = [line for line in PAGE.splitlines() if not line.startswith("|")]
    assert max(map(len, prose)) <= 84


def test_the_rules_that_the_page_names_exist() -> None:
    existing = {rule_id(name) for name in names("bnaudit.rules")}
    assert {rule for rule in re.findall(r"BN\d{3}", PAGE) if rule[2] in "12"} <= existing
