"""The settings: one entry for every key. What is read, refused, merged, shown and proposed comes from this table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from bnaudit.caps import Caps
from bnaudit.policy import checks
from bnaudit.policy.accepting import accepted
from bnaudit.policy.checks import Check, of_run
from bnaudit.results import Severity


class Key(NamedTuple):
    """One setting."""

    name: str
    what: str
    """One sentence for a person."""
    example: str
    """How it is written in a settings file."""
    check: Check
    goes: str = ""
    """The field of Settings that it sets, or `run.` and the field of RunOptions; "": the policy's own."""
    unset: str = ""
    """What holds where it is not set, when no value says so."""
    default: object = None
    """A gate's own default, where it is not that of Settings or RunOptions."""
    joined: Callable[[Mapping[str, Any]], object] | None = None
    """Of a table: what its entries, merged one by one, make together. None: a value that replaces the one before."""
    per_file: bool = True
    """It may stand in a section of `files`."""
    asks_to_run: bool = False
    typed: str = ""
    """How it is written on the command line, where that does not follow from `example`."""

    @property
    def option(self) -> str:
        """Its name on the command line."""
        return self.typed.partition(" ")[0] or f"--{self.name}"

    @property
    def as_typed(self) -> str:
        """How it is written on the command line."""
        value = self.example.partition(" = ")[2].replace('"', "").strip("[]").replace(", ", ",")
        return self.typed or (self.option if value == "true" else f"{self.option} {value}")


def _by_rule(entries: Mapping[str, float]) -> Mapping[str, Mapping[str, float]]:
    """`{"BN404.mean_shift": 0.4}` as limits by rule."""
    found: dict[str, dict[str, float]] = {}
    for path, value in entries.items():
        rule, _, name = path.partition(".")
        found.setdefault(rule, {})[name] = value
    return MappingProxyType({rule: MappingProxyType(limits) for rule, limits in found.items()})


def _values(entries: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(entries.values())


# fmt: off
_KEYS = (
    Key("paths", "What `bnaudit gate` audits when it is given no paths: files, folders, patterns.",
        'paths = ["models"]', checks.texts, per_file=False, unset="what the patterns of `files` fit"),
    Key("exclude", "Patterns of files that are left out when folders are searched.",
        'exclude = ["models/old/*"]', checks.texts, per_file=False, unset="nothing is left out"),
    Key("baseline", "A file of accepted findings, see `bnaudit baseline create`.",
        'baseline = ".bnaudit-baseline.json"', checks.text, per_file=False, unset="none"),
    Key("fail-on", "The lowest severity that fails: note, warning or error.",
        'fail-on = "warning"', checks.severity, "fail_on", default=Severity.WARNING),
    Key("require", "Verdicts that have to pass: buffers, eval-mode, neighbours, train-eval-gap, frozen; all or none.",
        'require = ["buffers", "eval-mode"]', checks.questions, "require"),
    Key("max-gap", "The largest train–eval gap, as a share of the outputs' spread; that verdict is required then.",
        "max-gap = 0.01", checks.positive, unset="none"),
    Key("select", "Only rules whose id starts with one of these.",
        'select = ["BN1", "BN301"]', checks.selectors, "select", unset="all rules"),
    Key("ignore", "Rules whose id starts with one of these are left out.",
        'ignore = ["BN112"]', checks.selectors, "ignore", unset="no rule is left out"),
    Key("layers", "Only layers whose name fits one of these patterns.",
        'layers = ["layer4.*"]', checks.texts, "layers", unset="all layers", typed="--layer 'layer4.*'"),
    Key("min-confidence", "The confidence from which a finding keeps its full severity: low, medium or high.",
        'min-confidence = "high"', checks.confidence, "min_confidence"),
    Key("severity", "Another severity for what a rule finds.",
        'severity = {BN105 = "error"}', checks.severities, "severities", joined=MappingProxyType,
        unset="each rule's own", typed="--severity BN105=error"),
    Key("limits", "Other limits of a rule; `bnaudit explain` names them.",
        "limits = {BN404 = {mean_shift = 0.4}}", checks.limits, "limits", joined=_by_rule, unset="each rule's own",
        typed="--limit BN404.mean-shift=0.4"),
    Key("intended", "What is meant to be so: a rule, and patterns of layers or modules. It becomes a note.",
        'intended = {BN302 = ["prenet.*"]}', checks.intended, "intended", joined=_values, unset="nothing",
        typed="--intended 'BN302=prenet.*'"),
    Key("model", "The model's code, file.py:callable or package.module:callable; a checkpoint is loaded into it.",
        'model = "net.py:build"', of_run("model", checks.callable_spec), "run.model", unset="none", asks_to_run=True),
    Key("model-args", "Keyword arguments of that callable.",
        "model-args = {width = 64}", checks.arguments, "run.model_args", joined=MappingProxyType, unset="none",
        typed="""--model-args '{"width": 64}'"""),
    Key("inputs", "Real inputs: .npy, .npz, .pt, .safetensors, or a callable that yields batches.",
        'inputs = "samples.npz"', of_run("inputs", checks.inputs), "run.inputs", unset="seeded noise",
        asks_to_run=True),
    Key("part", "The part of a checkpoint that is loaded into the model.",
        'part = "state_dict_ema"', checks.text, "run.part", unset="the one that fits best"),
    Key("as-is", "Judge the callable's model in the modes that it comes in, not after eval().",
        "as-is = true", checks.flag, "run.as_is"),
    Key("run", "Run TorchScript and .pt2 files. They are programs and can reach your files.",
        "run = true", checks.flag, "run.run", asks_to_run=True),
    Key("trust-pickle", "Unpickle whole modules. That executes whatever the file says.",
        "trust-pickle = true", checks.flag, "run.trust_pickle", asks_to_run=True),
    Key("custom-ops", "Libraries of custom ONNX operators, which are executed.",
        'custom-ops = ["ops.so"]', of_run("custom_ops", checks.files), "run.custom_ops", unset="none",
        asks_to_run=True),
    Key("static", "Run nothing, not even an ONNX graph.", "static = true", checks.flag, "run.static"),
    Key("batch-size", "Samples of one forward.",
        "batch-size = 16", of_run("batch_size", checks.whole), "run.batch_size", unset="16 with inputs, 8 without"),
    Key("anchors", "Rows whose outputs are compared while others change.",
        "anchors = 4", of_run("anchors", checks.whole), "run.anchors"),
    Key("batch-axis", "The axis of the inputs that counts samples.",
        "batch-axis = 0", of_run("batch_axis", checks.whole, "axis"), "run.axis", unset="it is found"),
    Key("dim", "Sizes of free dimensions of a graph.",
        "dim = {height = 224}", checks.dimensions, "run.dims", joined=MappingProxyType, unset="they are chosen",
        typed="--dim height=224"),
    Key("training-batch-size", "Samples per device in training, for BN405.",
        "training-batch-size = 32", of_run("training_batch_size", checks.whole), "run.training_batch_size",
        unset="unknown"),
    Key("budget", "Begin no forward after this time: 60s, 2m, 500ms, or seconds.",
        'budget = "60s"', of_run("budget", checks.duration), "run.budget", unset="no limit"),
    Key("seed", "The seed of all that is drawn.", "seed = 0", of_run("seed", checks.whole), "run.seed"),
    Key("device", "Where PyTorch runs: cpu, cuda, cuda:1, mps.",
        'device = "cpu"', of_run("device", checks.text), "run.device"),
    Key("caps", "Other bounds of reading a hostile file.",
        "caps = {value_bytes = 134217728}", checks.caps, "caps", per_file=False,
        joined=lambda entries: Caps(**entries), typed="--cap value_bytes=134217728"),
    Key("accept", "Findings that are known and fail nothing, with a reason and a last day.",
        'accept = [{rule = "BN105", reason = "why", until = 2027-01-31}]', accepted, "accept", per_file=False,
        joined=_values, unset="none"),
    Key("files", "Settings of the artifacts whose path fits a pattern.",
        'files = {"models/*.pt" = {model = "net.py:build"}}', checks.table, per_file=False),
)
# fmt: on
KEYS: Mapping[str, Key] = MappingProxyType({key.name: key for key in _KEYS})
