"""The callback in real trainings by Lightning."""

from __future__ import annotations

import copy
import logging
import pickle
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

pytest.importorskip("lightning.pytorch", reason="lightning is not installed")

import lightning.pytorch as pl
from integrations import trained_nets as nets
from lightning.pytorch.callbacks import Callback, ModelCheckpoint

from bnaudit.errors import UnfitModelError, UsageError
from bnaudit.integrations.lightning import NormAudit
from bnaudit.integrations.written import check_file

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning", "ignore::DeprecationWarning")


class Classifier:
    """The methods of a LightningModule, of whichever library."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        features, labels = batch
        return nn.functional.cross_entropy(self.net(features), labels)

    def validation_step(self, batch: Any, index: int) -> None:
        self.log("loss", nn.functional.cross_entropy(self.net(batch[0]), batch[1]))

    test_step = validation_step

    def predict_step(self, batch: Any, index: int) -> torch.Tensor:
        return self.net(batch[0])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD([p for p in self.parameters() if p.requires_grad], lr=0.1)


class Module(Classifier, pl.LightningModule):
    """A classifier around one of the nets."""


class Manual(Module):
    """Steps itself, and first looks at the loss."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__(net)
        self.automatic_optimization = False

    def training_step(self, batch: Any, index: int) -> None:
        loss = super().training_step(batch, index)
        self.optimizers().zero_grad()
        self.manual_backward(loss)
        self.optimizers().step()


class Adversarial(pl.LightningModule):
    """Freezes each of two nets in turns while the other steps."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.generator, self.critic = nets.Net(), nn.Sequential(nn.Linear(2, 6), nets.Net())

    def training_step(self, batch: Any, index: int) -> None:
        for optimizer, sign in zip(self.optimizers(), (1, -1), strict=True):
            self.toggle_optimizer(optimizer)
            optimizer.zero_grad()
            self.manual_backward(sign * self.critic(self.generator(batch[0])).mean())
            optimizer.step()
            self.untoggle_optimizer(optimizer)

    def validation_step(self, batch: Any, index: int) -> None:
        self.log("loss", self.critic(self.generator(batch[0])).mean())

    def configure_optimizers(self) -> list[torch.optim.Optimizer]:
        return [torch.optim.SGD(net.parameters(), 0.1) for net in (self.generator, self.critic)]


class EvalByBatchHook(Module):
    """Lightning calls the hooks of callbacks before a module's own."""

    def on_train_batch_start(self, batch: Any, index: int) -> None:
        self.net.backbone.eval()


class Averaging(Module):
    """Holds a frozen average of its net, in training mode, and lets it run in evaluation only."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__(net)
        self.average = torch.optim.swa_utils.AveragedModel(net, use_buffers=True).requires_grad_(False)

    def on_train_batch_end(self, *_: Any) -> None:
        self.average.update_parameters(self.net)

    def validation_step(self, batch: Any, index: int) -> None:
        self.log("loss", nn.functional.cross_entropy(self.average(batch[0]), batch[1]))


class Saving(Module):
    """Lightning keeps a deep copy of the net."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__(net)
        self.save_hyperparameters()


class FreezesLater(Module):
    """Trains all for an epoch, then the head."""

    def on_train_epoch_start(self) -> None:
        self.net.backbone.requires_grad_(self.current_epoch == 0)


class Losing(Module):
    """Its own hook, which Lightning calls after those of callbacks, drops the statistics."""

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["state_dict"] = nets.without_statistics(checkpoint["state_dict"])


class HeadOnly(Module):
    """Leaves its frozen backbone out of the checkpoint on purpose."""

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        kept = {key: value for key, value in checkpoint["state_dict"].items() if "backbone" not in key}
        checkpoint["state_dict"] = kept


class EvalByHook(Module):
    """Puts its frozen backbone into eval mode in a hook, not in train()."""

    def on_train_epoch_start(self) -> None:
        self.net.backbone.eval()


class Drops(Callback):
    """A callback before ours that drops the statistics."""

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        checkpoint["state_dict"] = nets.without_statistics(checkpoint["state_dict"])


def loader() -> torch.utils.data.DataLoader[Any]:
    return torch.utils.data.DataLoader(nets.samples(), batch_size=8)


def trainer(folder: Path, *callbacks: Callback, **options: Any) -> pl.Trainer:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    return pl.Trainer(max_epochs=2, default_root_dir=folder, callbacks=list(callbacks), **{**quiet, **options})


def fit(folder: Path, module: pl.LightningModule, *callbacks: Callback, **options: Any) -> pl.Trainer:
    made = trainer(folder, *(callbacks or (NormAudit(fail_on="note"),)), **options)
    made.fit(module, loader(), loader())
    return made


@pytest.mark.parametrize("net", [nets.Net, nets.KeptFrozen])
def test_a_healthy_training_is_as_it_would_be_without(net: type[nn.Module], tmp_path: Path, caplog: Any) -> None:
    trained = []
    for callbacks in ([NormAudit(fail_on="note")], [ModelCheckpoint(tmp_path / "other")]):
        pl.seed_everything(0, verbose=False)
        module = Module(net()).train()
        made = fit(tmp_path, module, *callbacks)
        made.test(module, loader(), verbose=False)
        made.predict(module, loader())
        trained.append({key: value.clone() for key, value in module.state_dict().items()})
    assert all(torch.equal(value, trained[1][key]) for key, value in trained[0].items())
    assert not [record for record in caplog.records if record.name == "bnaudit"]


@pytest.mark.parametrize("make", [Module, Manual])
def test_frozen_norms_that_update_stop_before_the_first_step(make: type[pl.LightningModule], tmp_path: Path) -> None:
    module = make(nets.Frozen())
    before = {key: value.clone() for key, value in module.named_parameters()}
    with pytest.raises(UnfitModelError, match=r"BN501 .* in net\.backbone\.bn\{1,2\} \(2 layers\)") as caught:
        fit(tmp_path, module)
    assert {finding.layer for finding in caught.value.findings} == {"net.backbone.bn1", "net.backbone.bn2"}
    assert all(torch.equal(value, before[key]) for key, value in module.named_parameters())
    assert int(module.net.backbone.bn1.num_batches_tracked) == 1
    assert "(in the first training batch)" in str(caught.value)


def test_a_train_of_its_own_that_nobody_calls_keeps_nothing_frozen(tmp_path: Path) -> None:
    """Lightning 2.2 and later leave the modes as they find them when a fit begins."""
    with pytest.raises(UnfitModelError, match="BN501"):
        fit(tmp_path, Module(nets.KeptFrozen()))


def test_modes_that_a_hook_sets_before_the_epoch_count(tmp_path: Path) -> None:
    fit(tmp_path, EvalByHook(nets.Frozen()))


@pytest.mark.parametrize(
    "make",
    [
        lambda: EvalByBatchHook(nets.Frozen()),
        lambda: Module(nets.EvalInForward()),
        lambda: Averaging(nets.Net()),
        lambda: Saving(nets.Net()),
        Adversarial,
    ],
)
def test_what_looks_wrong_before_the_forward_and_is_not_is_silent(make: Any, tmp_path: Path) -> None:
    fit(tmp_path, make())


def test_what_is_frozen_at_a_later_epoch_is_found_there(tmp_path: Path) -> None:
    module = FreezesLater(nets.Net())
    with pytest.raises(UnfitModelError, match="BN501"):
        fit(tmp_path, module)
    assert module.current_epoch == 1


@pytest.mark.parametrize(
    "options", [{}, {"intended": {"BN501": "*"}, "ignore": iter(["BN207"]), "select": ["BN1", "BN5"]}]
)
def test_the_callback_can_be_copied_and_sent_to_other_processes(options: dict[str, Any]) -> None:
    callback = NormAudit(fail_on="warning", **options)
    model = Module(nets.Frozen())
    for other in (callback, copy.deepcopy(callback), pickle.loads(pickle.dumps(callback))):
        other._stages.epoch_begins()
        other._stages.batch_begins(model)
        model.net(torch.randn(4, 6))
        with (
            nullcontext() if options else pytest.raises(UnfitModelError, match=r"BN501 .* in net\.backbone\.bn\{1,2\} ")
        ):
            other._stages.batch_ran(model)
        with nullcontext() if options else pytest.raises(UnfitModelError, match="BN207"):
            other._stages.hidden(nets.InAList(), "here")


def test_a_norm_in_a_list_is_found_at_fit_start(tmp_path: Path) -> None:
    module = Module(nets.InAList())
    with pytest.raises(UnfitModelError, match=r"BN207 .* in net\.extra\[0\].*at fit start"):
        fit(tmp_path, module)
    with pytest.raises(UnfitModelError, match=r"BN401 .* in net\.extra\[0\].*before validation"):
        fit(tmp_path, module, NormAudit(ignore="BN207"))


def test_the_trainer_that_a_module_holds_is_no_part_of_the_model(tmp_path: Path) -> None:
    class Holder(Callback):
        """Averages weights, say."""

        average = [nn.BatchNorm1d(3)]  # noqa: RUF012

    fit(tmp_path, Module(nets.Net()), Holder(), NormAudit(fail_on="note"))


@pytest.mark.parametrize(("call", "when"), [("validate", "validation"), ("test", "test"), ("predict", "prediction")])
def test_a_norm_that_ignores_eval_is_found_before(call: str, when: str, tmp_path: Path) -> None:
    made = trainer(tmp_path, NormAudit())
    with pytest.raises(UnfitModelError, match=rf"BN401 .* in net\.backbone\.bn2: in training mode .*before .*{when}"):
        getattr(made, call)(Module(nets.Disobedient()), loader())


def test_statistics_that_are_dropped_before_writing_stop_the_save(tmp_path: Path) -> None:
    with pytest.raises(UnfitModelError, match=r"BN101 .* in net\.backbone\.bn\{1,2\} \(2 layers\).*at save"):
        fit(tmp_path, Module(nets.Net()), Drops(), NormAudit(), ModelCheckpoint(tmp_path))
    assert not list(tmp_path.glob("*.ckpt"))


@pytest.mark.parametrize("options", [{}, {"save_weights_only": True}, {"save_last": True, "save_top_k": 0}])
def test_statistics_that_the_module_drops_are_found_in_the_file(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UnfitModelError, match=r"BN101 .* in net\.backbone\.bn\{1,2\} \(2 layers\).*\.ckpt"):
        fit(tmp_path, Losing(nets.Net()), NormAudit(), ModelCheckpoint(tmp_path, **options))


def test_a_backbone_that_is_left_out_whole_is_said_and_stops_nothing(tmp_path: Path, caplog: Any) -> None:
    fit(tmp_path, HeadOnly(nets.KeptFrozen()).train(), NormAudit(), ModelCheckpoint(tmp_path))
    said = [record.getMessage() for record in caplog.records if record.name == "bnaudit"]
    (line,) = said
    assert line.startswith("no tensor was written under the names of the 2 layers with running statistics: not checked")


def test_modules_among_the_hyperparameters_are_what_the_file_is_read_by(tmp_path: Path, caplog: Any) -> None:
    class Two(Saving):
        """Two modules that cover each other's names."""

        def __init__(self, net: nn.Module, other: nn.Module) -> None:
            super().__init__(net)
            self.other = other
            self.save_hyperparameters()

    fit(tmp_path, Two(nets.Net(), nets.Net()), NormAudit(fail_on="note"))
    assert not [record for record in caplog.records if record.name == "bnaudit"]
    lossy = Two(nets.Net(), nets.Net())
    lossy.other.backbone.bn1.register_buffer("running_mean", None)
    held = {"net": lossy.net, "other": lossy.other}
    torch.save({"hyper_parameters": held, "state_dict": lossy.state_dict()}, tmp_path / "lossy.ckpt")
    with pytest.raises(UnfitModelError, match=r"BN101 .* in other\.backbone\.bn1: running_mean is missing"):
        check_file(NormAudit()._stages, Two(nets.Net(), nets.Net()), tmp_path / "lossy.ckpt", "here")


def test_a_missing_counter_is_a_warning_that_is_said_once(tmp_path: Path, caplog: Any) -> None:
    class DropsCounters(Callback):
        def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
            for key in [key for key in checkpoint["state_dict"] if key.endswith("num_batches_tracked")]:
                del checkpoint["state_dict"][key]

    fit(tmp_path, Module(nets.Net()), DropsCounters(), NormAudit(), ModelCheckpoint(tmp_path))
    said = [record.getMessage() for record in caplog.records if record.name == "bnaudit"]
    assert len(said) == 1
    assert said[0].startswith("BN102 missing-batch-counter in net.backbone.bn{1,2} (2 layers): ")
    with pytest.raises(UnfitModelError, match="BN102"):
        fit(tmp_path, Module(nets.Net()), DropsCounters(), NormAudit(fail_on="warning"), ModelCheckpoint(tmp_path))


@pytest.mark.parametrize(
    "options",
    [
        {"ignore": "BN501"},
        {"select": ("BN1", "BN207")},
        {"intended": "BN501=net.backbone.*"},
        {"intended": {"BN501": "*.bn?"}},
    ],
)
def test_what_is_meant_or_not_selected_is_silent(options: dict[str, Any], tmp_path: Path, caplog: Any) -> None:
    fit(tmp_path, Module(nets.Frozen()), NormAudit(**options))
    assert not [record for record in caplog.records if record.name == "bnaudit"]


def test_never_logs_and_trains_on(tmp_path: Path, caplog: Any) -> None:
    made = fit(tmp_path, Module(nets.Frozen()), NormAudit(fail_on="never"))
    said = [record for record in caplog.records if record.name == "bnaudit"]
    assert len(said) == 1
    assert said[0].levelno == logging.WARNING
    assert "BN501" in said[0].getMessage()
    assert made.current_epoch == 2


@pytest.mark.parametrize("options", [{"select": "BN9999"}, {"fail_on": "fatal"}, {"intended": "XY1=*"}])
def test_options_that_name_nothing_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        NormAudit(**options)


def test_pytorch_lightning_takes_it_too(tmp_path: Path) -> None:
    """The same library under its old name, whose trainer asks for no class of callback."""
    other = pytest.importorskip("pytorch_lightning", reason="pytorch_lightning is not installed")

    class OldModule(Classifier, other.LightningModule):
        """The same classifier."""

    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    made = other.Trainer(max_epochs=1, default_root_dir=tmp_path, callbacks=[NormAudit()], **quiet)
    with pytest.raises(UnfitModelError, match="BN501"):
        made.fit(OldModule(nets.Frozen()), loader(), loader())


def test_resuming_from_a_checkpoint_works(tmp_path: Path) -> None:
    saver = ModelCheckpoint(tmp_path, save_last=True)
    fit(tmp_path, Module(nets.Net()), NormAudit(), saver)
    made = trainer(tmp_path, NormAudit())
    made.fit(Module(nets.Net()), loader(), loader(), ckpt_path=saver.last_model_path)
