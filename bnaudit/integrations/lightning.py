"""A callback for Lightning: `Trainer(callbacks=[NormAudit()])`.

Works with `lightning` and with `pytorch_lightning`, 2.2 and later.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bnaudit.errors import BnauditError, UnfitModelError
from bnaudit.integrations.stages import Stages
from bnaudit.integrations.written import check_file, check_state_dict
from bnaudit.results import Severity

if TYPE_CHECKING:
    Callback = object
else:
    try:
        if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
            from pytorch_lightning import Callback
        else:
            from lightning.pytorch import Callback
    except ModuleNotFoundError:
        try:
            from pytorch_lightning import Callback
        except ModuleNotFoundError:
            raise ImportError("lightning is not installed: pip install 'bnaudit[lightning]'") from None

LOGGER = logging.getLogger("bnaudit")
_NO_PART = frozenset({"_trainer", "_fabric", "_hparams_initial"})
"""What a LightningModule holds besides the model: trainers, and a deep copy of what `save_hyperparameters()` saves."""


class NormAudit(Callback):
    """Audits the norm layers of a LightningModule while it trains.

    - at fit start: modules that eval() and state_dict() do not reach (BN207)
    - in the first training batch of an epoch, when its forward has run and the optimizer has not: frozen norms that
      it updated (BN501)
    - before validation, test and prediction: layers in training mode after eval() (BN401)
    - at save: statistics that the checkpoint lacks (BN101, BN102), first in the dict, then, at the next epoch or the
      end, in what ModelCheckpoint wrote, which also holds what the LightningModule's own on_save_checkpoint changed

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
        self._stages = Stages(fail_on=fail_on, select=select, ignore=ignore, intended=intended, skip=_NO_PART)
        self._read: dict[str, float] = {}

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Hidden modules."""
        self._read = {}
        self._stages.hidden(pl_module, "at fit start", speaks=trainer.is_global_zero)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """What was saved in the last epoch."""
        self._stages.epoch_begins()
        self._read_back(trainer, pl_module)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: object, batch_idx: int) -> None:
        """What is frozen, before optimizers are toggled."""
        self._stages.batch_begins(pl_module)

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: object) -> None:
        """Frozen norms in training mode."""
        self._stages.batch_ran(pl_module, speaks=trainer.is_global_zero)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: object, batch: object, batch_idx: int) -> None:
        """The same where nothing was backpropagated, or not by Lightning."""
        self._stages.batch_ran(pl_module, speaks=trainer.is_global_zero)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Modes; Lightning has called eval()."""
        self._stages.modes(pl_module, "before validation", speaks=trainer.is_global_zero)

    def on_test_start(self, trainer: Any, pl_module: Any) -> None:
        """Modes."""
        self._stages.modes(pl_module, "before the test", speaks=trainer.is_global_zero)

    def on_predict_start(self, trainer: Any, pl_module: Any) -> None:
        """Modes."""
        self._stages.modes(pl_module, "before prediction", speaks=trainer.is_global_zero)

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Mapping[str, Any]) -> None:
        """What is about to be written."""
        state_dict = checkpoint.get("state_dict")
        if isinstance(state_dict, Mapping):
            check_state_dict(self._stages, pl_module, state_dict, "at save", speaks=trainer.is_global_zero)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """What was saved in the end."""
        self._read_back(trainer, pl_module, last=True)

    def _read_back(self, trainer: Any, pl_module: Any, last: bool = False) -> None:
        """Look at what is new on disk; a file that cannot be read yet may still be written and is tried again."""
        if not trainer.is_global_zero:
            return
        for path in _written(trainer):
            changed = path.stat().st_mtime
            if self._read.get(str(path)) == changed:
                continue
            try:
                check_file(self._stages, pl_module, path, f"in {path.name}")
            except UnfitModelError:
                raise
            except BnauditError as error:
                if last:
                    LOGGER.warning("%s was not checked: %s", path.name, error)
                continue
            self._read[str(path)] = changed


def _written(trainer: Any) -> list[Path]:
    """What the trainer's ModelCheckpoints say that they wrote, and what of it is there."""
    paths: dict[str, None] = {}
    for callback in trainer.checkpoint_callbacks:
        kept = getattr(callback, "best_k_models", {})
        for path in (*kept, getattr(callback, "best_model_path", ""), getattr(callback, "last_model_path", "")):
            if path:
                paths[str(path)] = None
    return [Path(path) for path in paths if Path(path).exists()]
