"""`bnaudit.compare` from files to report: paths and parts, what is chosen, what is concluded, how it ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from small_nets import ResNet

import bnaudit
from bnaudit.comparison import Comparison, FoldCause
from bnaudit.errors import UsageError
from bnaudit.results import Report, Severity
from bnaudit.run_options import RunOptions
from bnaudit.settings import Settings
from bnaudit.terminal.comparison_conclusion import conclusion

SAMPLES = Path(__file__).parent.parent / "sample_models"
HEALTHY = SAMPLES / "healthy"
STATE, KEPT, FOLDED = HEALTHY / "state_dict.pt", HEALTHY / "norms_kept.onnx", HEALTHY / "norms_folded.onnx"

State = dict[str, Any]


def compared(report: Report) -> Comparison:
    (audit,) = report.audits
    assert audit.comparison is not None
    return audit.comparison


def said(report: Report) -> str:
    return "; ".join(conclusion(compared(report)))


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[str, Any], Path]:
    """Saves what is given under this name."""

    def save(name: str, value: Any) -> Path:
        torch.save(value, tmp_path / name)
        return tmp_path / name

    return save


def trained(seed: int = 0) -> State:
    """A state dict of ten norms with random statistics and affines."""
    torch.manual_seed(seed)
    net = ResNet()
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.normal_(module.bias)
            module.num_batches_tracked += 1000
    return net.state_dict()


def changed(state: State, ending: str, change: Callable[[torch.Tensor], torch.Tensor]) -> State:
    return {key: change(value) if key.endswith(ending) else value for key, value in state.items()}


def test_a_state_dict_and_the_graph_exported_from_it_are_equal() -> None:
    for pair in ((STATE, KEPT), (KEPT, STATE)):
        report = bnaudit.compare(*pair)
        assert said(report) == "equal: 6 norm layers, bit for bit"
        assert (report.exit_code(), report.findings) == (0, ())
        assert report.audits[0].verdicts == ()


def test_a_graph_with_folded_norms_is_equal_after_folding_whichever_side_has_it() -> None:
    for pair, folded in (((STATE, FOLDED), "subject"), ((FOLDED, STATE), "baseline")):
        report = bnaudit.compare(*pair)
        folds = compared(report).folds
        assert folds is not None and folds.folded == folded
        assert {fold.cause for fold in folds.folds} == {FoldCause.EQUAL} and len(folds.folds) == 6
        assert said(report) == f"equal after folding: 6 norm layers are folded in the {folded}, rightly to rounding"
        assert report.exit_code() == 0


def test_everything_that_moved_is_said_to_have_and_nothing_else(saved: Callable[[str, Any], Path]) -> None:
    first, second = saved("a.pt", trained(0)), saved("b.pt", trained(1))
    report = bnaudit.compare(first, second)
    assert said(report) == "everything moved: weights and statistics of all 10 norm layers, nothing stood still"
    assert report.audits[0].artifact.path == str(second)
    assert compared(report).baseline.artifact.path == str(first)


def test_what_moved_alone_is_told_apart(saved: Callable[[str, Any], Path]) -> None:
    state = trained()
    base = saved("a.pt", state)
    drifted = saved("b.pt", changed(state, "running_mean", lambda t: t + 1))
    tuned = saved("c.pt", changed(state, "bn1.weight", lambda t: t * 2))
    statistics = bnaudit.compare(base, drifted)
    assert said(statistics) == "statistics moved and weights stood still, in all 10 norm layers"
    assert {finding.rule for finding in statistics.findings} == {"BN601"} and statistics.exit_code() == 1
    some = said(bnaudit.compare(base, tuned))
    assert some == "5 of 10 norm layers moved: weights alone of 5; the other 5 are equal bit for bit"


def test_a_half_precision_copy_is_equal_up_to_rounding(saved: Callable[[str, Any], Path]) -> None:
    state = trained()
    half = {key: value.half() if value.is_floating_point() else value for key, value in state.items()}
    report = bnaudit.compare(saved("a.pt", state), saved("b.pt", half))
    assert said(report) == "equal: 10 norm layers, up to rounding to float16"
    assert report.exit_code() == 0


def test_layers_beside_the_norms_with_another_shape_are_named(saved: Callable[[str, Any], Path]) -> None:
    state = trained()
    wider = {**state, "fc.weight": torch.zeros(7, 16), "fc.bias": torch.zeros(7)}
    report = bnaudit.compare(saved("a.pt", state), saved("b.pt", wider))
    (found,) = compared(report).reshaped
    assert (found.layer, found.shapes) == ("fc", ((10, 16), (7, 16)))
    assert said(report) == "equal: 10 norm layers, bit for bit; 1 other layer changed shape"


def test_a_part_is_named_behind_a_number_sign(saved: Callable[[str, Any], Path]) -> None:
    both = saved("ckpt.pt", {"state_dict": trained(0), "state_dict_ema": trained(1)})
    plain = saved("plain.pt", trained(1))
    assert said(bnaudit.compare(plain, f"{both}#state_dict_ema")).startswith("equal")
    assert said(bnaudit.compare(plain, f"{both}#state_dict")).startswith("everything moved")
    report = bnaudit.compare(f"{both}#state_dict", f"{both}#state_dict_ema")
    assert said(report).startswith("everything moved")
    found = compared(report)
    assert (found.baseline_part.name, found.subject_part.name) == ("state_dict", "state_dict_ema")


def test_of_several_parts_the_one_that_is_closer_is_taken_and_told(saved: Callable[[str, Any], Path]) -> None:
    both = saved("ckpt.pt", {"state_dict": trained(0), "state_dict_ema": trained(1)})
    report = bnaudit.compare(both, saved("plain.pt", trained(1)))
    assert said(report).startswith("equal")
    assert compared(report).baseline_part.name == "state_dict_ema"
    assert (
        compared(report).remarks[0].startswith("ckpt.pt holds state_dict, state_dict_ema: state_dict_ema is compared")
    )


def test_one_part_against_its_own_file_is_compared_with_the_other(saved: Callable[[str, Any], Path]) -> None:
    both = saved("ckpt.pt", {"state_dict": trained(0), "state_dict_ema": trained(1)})
    for pair in ((f"{both}#state_dict", both), (both, f"{both}#state_dict")):
        found = compared(bnaudit.compare(*pair))
        assert {found.baseline_part.name, found.subject_part.name} == {"state_dict", "state_dict_ema"}


def test_a_file_whose_name_holds_a_number_sign_is_that_file(saved: Callable[[str, Any], Path]) -> None:
    odd, plain = saved("run#3.pt", trained()), saved("plain.pt", trained())
    assert said(bnaudit.compare(odd, plain)).startswith("equal")
    both = saved("run#4.pt", {"state_dict": trained(0), "state_dict_ema": trained(1)})
    assert said(bnaudit.compare(plain, f"{both}#state_dict")).startswith("equal")


def test_a_file_with_itself_is_no_comparison(saved: Callable[[str, Any], Path], tmp_path: Path) -> None:
    path = saved("a.pt", trained())
    (tmp_path / "link.pt").symlink_to(path)
    for pair in ((path, path), (path, tmp_path / "link.pt")):
        with pytest.raises(UsageError, match="compared with itself: give two files"):
            bnaudit.compare(*pair)
    both = saved("ckpt.pt", {"state_dict": trained(0), "state_dict_ema": trained(1)})
    with pytest.raises(UsageError, match=r"or two parts, ckpt.pt#state_dict and ckpt.pt#state_dict_ema"):
        bnaudit.compare(both, both)
    with pytest.raises(UsageError, match="with itself"):
        bnaudit.compare(f"{both}#state_dict", f"{both}#state_dict")


def test_a_part_that_is_not_there_is_refused_with_the_nearest_name(saved: Callable[[str, Any], Path]) -> None:
    both = saved("ckpt.pt", {"state_dict": trained(0), "state_dict_ema": trained(1)})
    with pytest.raises(UsageError, match="no part 'state_dict_emma': did you mean state_dict_ema"):
        bnaudit.compare(STATE, f"{both}#state_dict_emma")
    with pytest.raises(UsageError, match=r"state_dict.pt has no parts with names \(#ema\)"):
        bnaudit.compare(f"{STATE}#ema", KEPT)


def test_what_cannot_be_read_is_an_entry_with_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("to do", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    (tmp_path / "cut.pt").write_bytes(STATE.read_bytes()[:20_000])
    unread = {"gone.pt": "does not exist", "notes.txt": "text file", "empty": "folder that is no model", "cut.pt": ""}
    for name, why in unread.items():
        for pair in ((STATE, tmp_path / name), (tmp_path / name, STATE)):
            report = bnaudit.compare(*pair)
            assert report.audits == () and report.exit_code() == 2
            assert [entry.path for entry in report.unaudited] == [str(tmp_path / name)]
            assert why in report.unaudited[0].why and "\n" not in report.unaudited[0].why
    assert len(bnaudit.compare(tmp_path / "gone.pt", tmp_path / "notes.txt").unaudited) == 2


def test_a_format_that_is_not_read_is_no_error_and_no_pass(tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(b"\x1c\x00\x00\x00TFL3" + bytes(64))
    report = bnaudit.compare(STATE, tmp_path / "net.tflite")
    assert (report.exit_code(), [entry.error for entry in report.unaudited]) == (3, [False])


def test_nothing_in_common_is_never_0(saved: Callable[[str, Any], Path]) -> None:
    bare = saved("bare.pt", torch.nn.Linear(3, 2).state_dict())
    other = saved("other.pt", torch.nn.Linear(5, 2).state_dict())
    report = bnaudit.compare(bare, other)
    assert said(report).startswith("nothing could be compared: neither holds a norm layer")
    assert report.exit_code() == 3
    for pair in ((bare, STATE), (STATE, bare)):
        assert bnaudit.compare(*pair).exit_code() in (1, 3)
        assert said(bnaudit.compare(*pair)).startswith("nothing could be compared")


def test_only_rules_on_two_artifacts_speak_and_can_be_chosen(saved: Callable[[str, Any], Path]) -> None:
    state = trained()
    base, drifted = saved("a.pt", state), saved("b.pt", changed(state, "running_mean", lambda t: t * torch.nan))
    every = bnaudit.compare(base, drifted)
    assert {finding.rule[:3] for finding in every.findings} <= {"BN6"}, "NaN is told by an audit"
    assert set(every.rules or ()) == {"BN108", *(f"BN60{n}" for n in range(1, 9))}
    chosen = bnaudit.compare(base, drifted, select="BN601")
    assert set(chosen.rules or ()) == {"BN601"}
    with pytest.raises(UsageError, match="no rule about two artifacts is selected"):
        bnaudit.compare(base, drifted, select="BN1", ignore="BN108")
    with pytest.raises(TypeError, match=r"compare\(\) has no option 'selekt'"):
        bnaudit.compare(base, drifted, selekt="BN6")


def test_options_hold_as_they_do_in_an_audit(saved: Callable[[str, Any], Path]) -> None:
    state = trained()
    base, drifted = saved("a.pt", state), saved("b.pt", changed(state, "running_mean", lambda t: t + 1))
    meant = bnaudit.compare(base, drifted, intended={"BN601": "*"})
    assert {finding.severity for finding in meant.findings} == {Severity.NOTE} and meant.exit_code() == 0
    strict = bnaudit.compare(base, saved("c.pt", trained(1)), fail_on="note")
    assert strict.exit_code() == 1
    one = bnaudit.compare(base, drifted, layers="layer1.*")
    assert one.findings and all(finding.layer.startswith("layer1.") for finding in one.findings)


def test_outputs_are_compared_only_when_inputs_or_a_model_are_given() -> None:
    still = bnaudit.compare(KEPT, FOLDED)
    assert compared(still).run is None and "--inputs" in compared(still).run_needs
    assert [skipped.rule for skipped in still.audits[0].skipped] == ["BN606"]
    ran = compared(bnaudit.compare(KEPT, FOLDED, inputs=SAMPLES / "digits.npz")).run
    assert ran is not None and not ran.synthetic and ran.flips == 0 and ran.decisions > 0
    told = bnaudit.compare(KEPT, FOLDED, static=True)
    assert compared(told).not_run == "--static was given"


def test_a_checkpoint_is_run_in_the_model_of_the_options_and_a_graph_as_it_is() -> None:
    model = f"{SAMPLES / 'digits.py'}:build"
    ran = compared(bnaudit.compare(STATE, KEPT, model=model, inputs=SAMPLES / "digits.npz")).run
    assert ran is not None
    assert ran.runners[0].startswith("PyTorch") and ran.runners[1].startswith("onnxruntime")
    assert ran.reference_in_eval is True and ran.flips == 0
    without = compared(bnaudit.compare(STATE, KEPT, inputs=SAMPLES / "digits.npz"))
    assert without.run is None and without.not_run == "state_dict.pt: a state dict holds no code"


def test_live_models_are_compared_and_left_as_they_were() -> None:
    first, second = ResNet(), ResNet()
    first.load_state_dict(trained(0))
    second.load_state_dict(trained(0))
    second.layer1[0].bn1.running_mean += 1
    before = {key: value.clone() for key, value in second.state_dict().items()}
    batch = torch.randn(6, 3, 8, 8)
    report = bnaudit.compare(first.eval(), second.eval(), inputs=batch)
    assert said(report).startswith("1 of 10 norm layers moved: statistics alone of 1")
    ran = compared(report).run
    assert ran is not None and ran.parts_at.startswith("layer1.0.bn1")
    assert all(torch.equal(value, before[key]) for key, value in second.state_dict().items())


def test_a_file_is_compared_with_the_model_as_it_is_built(saved: Callable[[str, Any], Path]) -> None:
    torch.manual_seed(0)
    net = ResNet()
    path = saved("a.pt", net.state_dict())
    assert said(bnaudit.compare(path, net, inputs=torch.randn(4, 3, 8, 8))).startswith("equal: 10 norm layers")
    assert said(bnaudit.compare(path, model=net)).startswith("equal: 10 norm layers")
    with pytest.raises(UsageError, match="with --static"):
        bnaudit.compare(path, net, static=True)


def test_wrong_calls_say_what_to_give() -> None:
    with pytest.raises(UsageError, match="nothing to compare with: give a second path"):
        bnaudit.compare(STATE)
    with pytest.raises(UsageError, match="a round trip is of one model"):
        bnaudit.compare(STATE, KEPT, roundtrip=True)
    with pytest.raises(UsageError, match="neither a model nor the path of one"):
        bnaudit.compare(STATE, 7)
    with pytest.raises(UsageError, match="a path is empty"):
        bnaudit.compare(STATE, "")
    with pytest.raises(UsageError, match=r"each of two has its own part \(part ema\): write file.pt#ema"):
        bnaudit.compare(STATE, KEPT, part="ema")
    with pytest.raises(UsageError, match="no verdicts that could be required: bnaudit gate has them"):
        bnaudit.compare(STATE, KEPT, require="all")


def test_a_run_that_was_asked_for_and_fails_exits_2() -> None:
    settings = Settings(run=RunOptions(inputs=torch.zeros(2, 7)))
    report = bnaudit.compare(KEPT, FOLDED, settings)
    assert report.exit_code() == 2 and report.audits[0].run_failed
    assert said(report).startswith("equal after folding")


def test_a_static_comparison_imports_no_framework_and_no_typer() -> None:
    code = (
        "import sys; sys.argv = ['bnaudit', 'compare', *sys.argv[1:]]\n"
        "from bnaudit.__main__ import main\n"
        "try: main()\n"
        "finally: print(sorted({m.split('.')[0] for m in sys.modules} & set('torch onnx onnxruntime typer'.split())))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(STATE), str(FOLDED)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "equal after folding" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"
