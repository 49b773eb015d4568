"""What each rule declares: the severity and the question of the catalogue, its limits, what it needs and yields to.

Limits are a promise to whoever sets them in `bnaudit.toml`; that a rule keeps them is tested in the rule's own file.
"""

from __future__ import annotations

import math

import pytest

from bnaudit.results import Question, Severity
from bnaudit.rules import load_rule, rule_files

NOTE, WARNING, ERROR = Severity.NOTE, Severity.WARNING, Severity.ERROR
DECLARED = {
    "BN101": (ERROR, Question.BUFFERS, {}, (), ()),
    "BN102": (NOTE, Question.BUFFERS, {}, (), ()),
    "BN103": (ERROR, Question.BUFFERS, {"absorbed_variance": 0.001}, (), ("BN117",)),
    "BN104": (WARNING, Question.BUFFERS, {"assumed_momentum": 0.1, "absorbed_variance": 0.001}, (), ()),
    "BN105": (
        WARNING,
        Question.BUFFERS,
        {"share": 0.05, "severe_share": 0.5, "assumed_momentum": 0.1},
        (),
        ("BN103", "BN104"),
    ),
    "BN106": (ERROR, Question.BUFFERS, {"channels": 0}, (), ()),
    "BN107": (ERROR, Question.BUFFERS, {"assumed_epsilon": 1e-05, "largest_epsilon": 0.001}, (), ("BN106",)),
    "BN108": (NOTE, None, {"gain_change": 0.1}, (), ()),
    "BN109": (
        NOTE,
        None,
        {
            "largest_half": 65504.0,
            "smallest_half": 6e-08,
            "ratio": 10000.0,
            "small_epsilon": 1e-06,
            "assumed_epsilon": 1e-05,
        },
        (),
        ("BN106", "BN107"),
    ),
    "BN110": (WARNING, Question.BUFFERS, {"distinct_values": 8}, (), ()),
    "BN111": (WARNING, Question.BUFFERS, {}, (), ()),
    "BN112": (NOTE, None, {}, (), ()),
    "BN113": (NOTE, None, {"tolerance": 0.01, "largest_factor": 64}, (), ()),
    "BN114": (ERROR, Question.BUFFERS, {}, (), ()),
    "BN115": (ERROR, None, {"channels": 0}, (), ()),
    "BN116": (NOTE, None, {}, (), ()),
    "BN117": (
        WARNING,
        Question.BUFFERS,
        {"initial_share": 0.05, "mean_shift": 0.5, "variance_factor": 2.0, "affine_difference": 0.05},
        (),
        (),
    ),
    "BN118": (NOTE, Question.BUFFERS, {}, (), ()),
    "BN201": (WARNING, Question.EVAL_MODE, {}, (), ("BN202", "BN203", "BN207", "BN401", "BN501")),
    "BN202": (ERROR, Question.EVAL_MODE, {}, (), ("BN203", "BN211")),
    "BN203": (ERROR, Question.EVAL_MODE, {}, (), ()),
    "BN204": (WARNING, Question.NEIGHBOURS, {}, (), ("BN210", "BN211", "BN301", "BN502")),
    "BN205": (WARNING, Question.FROZEN, {}, (), ("BN101", "BN502")),
    "BN206": (NOTE, None, {}, (), ()),
    "BN207": (ERROR, Question.EVAL_MODE, {}, (), ()),
    "BN208": (WARNING, None, {"momentum": 0.5}, (), ()),
    "BN209": (NOTE, None, {}, (), ()),
    "BN210": (NOTE, Question.NEIGHBOURS, {}, (), ("BN101",)),
    "BN211": (ERROR, Question.NEIGHBOURS, {}, (), ()),
    "BN301": (
        ERROR,
        Question.NEIGHBOURS,
        {"epsilons": 64.0},
        ("neighbours",),
        ("BN202", "BN203", "BN210", "BN211", "BN401"),
    ),
    "BN302": (ERROR, Question.EVAL_MODE, {"epsilons": 64.0}, ("repeats",), ("BN202", "BN203", "BN401")),
    "BN303": (ERROR, Question.NEIGHBOURS, {"epsilons": 64.0}, ("batch_size",), ()),
    "BN304": (WARNING, Question.NEIGHBOURS, {"epsilons": 64.0}, ("padding",), ()),
    "BN305": (ERROR, Question.NEIGHBOURS, {"epsilons": 64.0}, ("repeats",), ()),
    "BN306": (ERROR, Question.EVAL_MODE, {"epsilons": 64.0}, ("repeats",), ("BN401",)),
    "BN307": (WARNING, None, {"epsilons": 64.0, "roundings": 4.0}, ("production",), ()),
    "BN401": (ERROR, Question.EVAL_MODE, {}, ("eval_mode",), ("BN202", "BN203")),
    "BN402": (ERROR, Question.EVAL_MODE, {}, ("eval_mode",), ("BN202", "BN203", "BN306", "BN401")),
    "BN403": (
        WARNING,
        Question.GAP,
        {"samples": 16, "flip_share": 0.05, "flip_anchors": 64, "max_gap": math.inf},
        ("train_eval_gap",),
        (),
    ),
    "BN404": (
        WARNING,
        Question.GAP,
        {"mean_shift": 0.5, "variance_ratio": 2.0, "errors": 4.0, "mean_samples": 8, "variance_samples": 16},
        ("train_eval_gap",),
        ("BN103", "BN104", "BN105", "BN106", "BN107"),
    ),
    "BN405": (WARNING, None, {"values": 16}, ("train_eval_gap",), ()),
    "BN406": (ERROR, None, {}, ("train_eval_gap",), ()),
    "BN407": (
        WARNING,
        Question.GAP,
        {"mean_difference": 0.5, "variance_ratio": 2.0, "errors": 4.0},
        ("train_eval_gap",),
        (),
    ),
    "BN501": (ERROR, Question.FROZEN, {}, (), ()),
    "BN502": (NOTE, Question.NEIGHBOURS, {}, (), ()),
    "BN601": (ERROR, None, {}, ("baseline",), ("BN608",)),
    "BN602": (WARNING, None, {"affine_difference": 0.05}, ("baseline",), ("BN608",)),
    "BN603": (ERROR, None, {}, ("baseline",), ()),
    "BN604": (ERROR, None, {}, ("baseline",), ()),
    "BN605": (ERROR, None, {"change": 0.001}, ("baseline",), ()),
    "BN606": (ERROR, None, {}, ("baseline", "outputs"), ()),
    "BN607": (NOTE, None, {}, ("baseline",), ("BN608",)),
    "BN608": (WARNING, None, {"factor": 2.0, "tolerance": 0.1}, ("baseline",), ()),
    "BN901": (ERROR, None, {}, (), ()),
}


@pytest.mark.parametrize("id", rule_files())
def test_a_rule_declares_what_the_catalogue_says(id: str) -> None:
    rule = load_rule(rule_files()[id])
    assert (rule.severity, rule.question, dict(rule.limits), rule.needs, rule.yields_to) == DECLARED[id]
