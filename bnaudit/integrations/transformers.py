"""A callback for Hugging Face's Trainer: `Trainer(…, callbacks=[NormAudit()])`, transformers 4.40 and later."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bnaudit.errors import BnauditError, UnfitModelError, UsageError
from bnaudit.integrations.stages import Stages
from bnaudit.integrations.written import check_file
from bnaudit.results import Severity

if TYPE_CHECKING:
    TrainerCallback = object
else:
    try:
        from transformers import TrainerCallback
    except ModuleNotFoundError:
        raise ImportError("transformers is not installed: pip install 'bnaudit[transformers]'") from None

LOGGER = logging.getLogger("bnaudit")


class NormAudit(TrainerCallback):
    """Audits the norm layers of a model while Hugging Face's Trainer trains it.

    - when training begins: modules that eval() and state_dict() do not reach (BN207)
    - in the first training batch of an epoch, when its forward has run and the optimizer has not: frozen norms that
      it updated (BN501)
    - after the first batch of every evaluation or prediction, the first event of it that there is: layers in training
      mode after eval() (BN401)
    - at save: statistics that the written folder lacks (BN101, BN102)

    fail_on: findings of this severity and above raise a bnaudit.errors.UnfitModelError, warnings below it go to the
        logger "bnaudit"; `never` raises nothing. select, ignore, intended: as in `bnaudit.audit`
        (`intended="BN501=encoder_k.*"`).
    """

    def __init__(
        self,
        *,
        fail_on: str | Severity = "error",
        select: str | Iterable[str] = (),
        ignore: str | Iterable[str] = (),
        intended: str | Iterable[str] | Mapping[str, str] = (),
    ) -> None:
        self._stages = Stages(fail_on=fail_on, select=select, ignore=ignore, intended=intended)
        self._evaluating = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Hidden modules."""
        self._evaluating = False
        self._stages.hidden(kwargs["model"], "when training begins", speaks=state.is_world_process_zero)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """An epoch begins."""
        self._stages.epoch_begins()

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """What is frozen; and no evaluation is under way, whatever became of the last one."""
        self._evaluating = False
        self._stages.batch_begins(kwargs["model"])

    def on_substep_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Frozen norms in training mode, after the first of several batches of a step."""
        self._stages.batch_ran(kwargs["model"], speaks=state.is_world_process_zero)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The same where a step has one batch."""
        self._stages.batch_ran(kwargs["model"], speaks=state.is_world_process_zero)

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Modes; the Trainer has called eval()."""
        if not self._evaluating:
            self._evaluating = True
            self._stages.modes(kwargs["model"], "in evaluation", speaks=state.is_world_process_zero)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """An evaluation is over."""
        self._evaluating = False

    def on_predict(self, args: Any, state: Any, control: Any, metrics: Any, **kwargs: Any) -> None:
        """A prediction is over."""
        self._evaluating = False

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """What was written, read back from the folder."""
        if not state.is_world_process_zero:
            return
        folder = _folder(Path(args.output_dir), f"checkpoint-{state.global_step}")
        try:
            if folder is None:
                raise UsageError("the folder was not found", where=args.output_dir, remedy="look at output_dir")
            check_file(self._stages, kwargs["model"], folder, f"in {folder.name}")
        except UnfitModelError:
            raise
        except BnauditError as error:
            LOGGER.warning("checkpoint-%s was not checked: %s", state.global_step, error)


def _folder(output: Path, name: str) -> Path | None:
    """Where the Trainer wrote; a search for hyperparameters has a folder for each run."""
    found = [path for path in (output / name, *output.glob(f"run-*/{name}")) if path.is_dir()]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)
