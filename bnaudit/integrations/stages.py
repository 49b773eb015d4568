"""The stages of a training at which a trainer's callback looks at the model, and what it does with what it finds."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from torch import nn

from bnaudit import plugins
from bnaudit.auditing import conclude, rule_names
from bnaudit.call_options import with_options
from bnaudit.description import Artifact, Description, HiddenModule, Part
from bnaudit.errors import UnfitModelError, UsageError
from bnaudit.modes import ModeLayer, is_frozen, mode_layers, something_trains
from bnaudit.name_patterns import listed
from bnaudit.records import replace
from bnaudit.results import Finding, Hit, Severity
from bnaudit.rules import Case, Rule, load_rule, rule_id
from bnaudit.settings import Settings
from bnaudit.torch_session.live_layers import live_part
from bnaudit.watching.layers import WatchedLayer, layout_of
from bnaudit.watching.statistics import Snapshot, changes, taken

LOGGER = logging.getLogger("bnaudit")
_NEVER = "never"
_ADVICE = (
    "let train(False) reach it: register it in a ModuleList, and call super().train(mode) in an overridden train()"
)


class _Frozen(NamedTuple):
    """Frozen norms and their statistics at one time."""

    names: frozenset[str]
    layers: tuple[WatchedLayer, ...]
    statistics: list[Snapshot]

    def moved(self) -> frozenset[str]:
        """The names of those whose statistics have changed since, or cannot be compared."""
        kept = {layer.name for layer, change in changes(self.statistics, taken(self.layers)) if not change.changed}
        return self.names - kept


class Stages:
    """Looks at a live model with bnaudit's own rules; nothing is run and the model stays as it is, bit for bit.

    fail_on: findings of this severity and above raise UnfitModelError, those below are logged as warnings (notes are
        not); `never` raises nothing. select, ignore, intended: as in `bnaudit.audit`.
    skip: attributes of modules that are no part of the model.

    Raises UsageError for options that name what does not exist.
    """

    def __init__(
        self,
        *,
        fail_on: str | Severity = Severity.ERROR,
        select: str | Iterable[str] = (),
        ignore: str | Iterable[str] = (),
        intended: str | Iterable[str] | Mapping[str, str] = (),
        skip: frozenset[str] = frozenset(),
    ) -> None:
        options: dict[str, Any] = {"select": _kept(select), "ignore": _kept(ignore), "intended": _kept(intended)}
        self._given = {**options, "fail_on": fail_on, "skip": skip}
        self._settings = with_options(Settings(), options)
        rule_names(self._settings)
        self._fail_on = _threshold(fail_on)
        self._skip = skip
        self._told: set[str] = set()
        self._epoch_began = False
        self._frozen: _Frozen | None = None
        """Before the first batch of an epoch, until a forward of it ran."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Trainers copy their callbacks, and send them to other processes."""
        return _made_again, (self._given, self._told)

    def hidden(self, model: nn.Module, when: str, *, speaks: bool = True) -> None:
        """Modules that train(), eval() and state_dict() do not reach (BN207)."""
        self._look(model, self.part(model), self._rules("BN207"), when, speaks)

    def epoch_begins(self) -> None:
        """Frozen norms are looked at in the first training batch from now on."""
        self._epoch_began = True

    def batch_begins(self, model: nn.Module) -> None:
        """Note which norms are frozen while others train, whatever mode they are in, and their statistics.

        A loop may set modes as late as in its forward, the training of a GAN freezes more for a moment, and an average
        of the weights does not run in training.
        """
        if not self._epoch_began:
            return
        self._epoch_began = False
        part = self.part(model)
        others_train = something_trains(part)
        names = frozenset(layer.name for layer in part.layers if others_train and is_frozen(layer))
        layers = tuple(layer for layer in layout_of(model).layers if layer.name in names)
        self._frozen = _Frozen(names, layers, taken(layers))

    def batch_ran(self, model: nn.Module, *, speaks: bool = True) -> None:
        """Frozen norms that keep updating (BN501), to be called when a forward of the training just ran."""
        before, self._frozen = self._frozen, None
        if before is None or not before.names:
            return
        moved = before.moved()
        part = self.part(model)
        layers = [layer if layer.name in moved else replace(layer, training=None) for layer in part.layers]
        part = replace(part, layers=tuple(layers))
        self._look(model, part, self._rules("BN501"), "in the first training batch", speaks)

    def modes(self, model: nn.Module, when: str, *, speaks: bool = True) -> None:
        """Layers in training mode after eval() (BN401, by their flags)."""
        leaks = [rule._replace(check=_in_training_mode, needs=()) for rule in self._rules("BN401")]
        self._look(model, self.part(model), leaks, when, speaks)

    def saved(self, model: nn.Module, part: Part, when: str, *, speaks: bool = True) -> None:
        """Buffers that what was written lacks (BN101, BN102). part: the model with the tensors that were written."""
        self._look(model, part, self._rules("BN101", "BN102"), when, speaks)

    def say(self, message: str, *arguments: object) -> None:
        """Log a warning, each only once."""
        if message not in self._told:
            self._told.add(message)
            LOGGER.warning(message, *arguments)

    def part(self, model: nn.Module) -> Part:
        """The model as it is now."""
        return live_part(model, skip=self._skip)

    def _rules(self, *ids: str) -> list[Rule]:
        files = plugins.names("bnaudit.rules")
        return [load_rule(name) for name in files if rule_id(name) in ids and self._settings.selects(rule_id(name))]

    def _look(self, model: nn.Module, part: Part, rules: Sequence[Rule], when: str, speaks: bool) -> None:
        artifact = Artifact(path=type(model).__qualname__, format="live model in PyTorch", size=0, bytes_read=0)
        audit = conclude(Description(artifact=artifact, parts=(part,)), self._settings, rules)
        if audit.failed:
            raise RuntimeError(f"{audit.failed[0].rule} broke: {audit.failed[0].error}")
        self._respond([finding for finding in audit.findings if not finding.intended], part, when, speaks)

    def _respond(self, findings: Sequence[Finding], part: Part, when: str, speaks: bool) -> None:
        """Log what is below the threshold, once, and raise for what is not."""
        grave = [finding for finding in findings if finding.severity >= self._fail_on]
        for group in _grouped(
            [finding for finding in findings if Severity.WARNING <= finding.severity < self._fail_on]
        ):
            new = [finding for finding in group if finding.fingerprint not in self._told]
            self._told.update(finding.fingerprint for finding in new)
            if new and speaks:
                LOGGER.warning("%s (%s): %s", _what(new, part), when, new[0].advice)
        if grave:
            first, *rest = _grouped(grave)
            more = "".join(f"; {_what(group, part)}" for group in rest)
            raise UnfitModelError(
                _what(first, part) + more, where=when, remedy=first[0].advice, findings=tuple(findings)
            )


def _kept(value: str | Iterable[str] | Mapping[str, str]) -> str | tuple[str, ...] | dict[str, str]:
    if isinstance(value, Mapping):
        return dict(value)
    return value if isinstance(value, str) else tuple(value)


def _made_again(given: dict[str, Any], told: set[str]) -> Stages:
    stages = Stages(**given)
    stages._told.update(told)
    return stages


def _threshold(fail_on: str | Severity) -> int:
    if isinstance(fail_on, Severity):
        return fail_on
    names = {severity.label: int(severity) for severity in Severity}
    if fail_on == _NEVER:
        return max(names.values()) + 1
    if fail_on not in names:
        raise UsageError(f"fail_on={fail_on!r} is no severity", remedy=f"give one of {', '.join([*names, _NEVER])}")
    return names[fail_on]


def _grouped(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Of one rule and message together, in the order of the findings: gravest first."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.rule, finding.message), []).append(finding)
    return list(groups.values())


def _what(group: Sequence[Finding], part: Part) -> str:
    """`BN501 frozen-weights-updating-buffers in layer1.{0,1}.bn{1,2}: weight and bias are frozen, but …`."""
    names = [finding.layer for finding in group if finding.layer is not None]
    others = [layer.name for layer in part.layers]
    where = f" in {listed(names, [*names, *others])}" if names else ""
    count = f" ({len(names)} layers)" if len(names) > 1 else ""
    return f"{group[0].rule} {group[0].name}{where}{count}: {group[0].message}"


def _in_training_mode(case: Case) -> Iterator[Hit]:
    for part in case.subject.parts:
        for layer in mode_layers(part):
            if layer.training and layer.graph_training is None:
                yield _leak(layer)
        for hidden in part.hidden:
            if hidden.in_training:
                yield _hidden_leak(hidden)


def _leak(layer: ModeLayer) -> Hit:
    message = f"in training mode after eval(): it {layer.doing}"
    return Hit(message=message, advice=_ADVICE, layer=layer.name, value="training", limit="eval")


def _hidden_leak(hidden: HiddenModule) -> Hit:
    layer = hidden.mode_dependent[0] if hidden.mode_dependent else hidden.path
    message = "in training mode after eval(), which does not reach it"
    return Hit(message=message, advice=_ADVICE, layer=layer, value="training", limit="eval")
