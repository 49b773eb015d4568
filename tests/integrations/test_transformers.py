"""The callback in real trainings by Hugging Face's Trainer."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("accelerate", reason="accelerate is not installed")

from integrations import trained_nets as nets
from safetensors.torch import load_file, save_file
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainerCallback, TrainingArguments

from bnaudit.errors import UnfitModelError
from bnaudit.integrations.transformers import NormAudit

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning", "ignore::DeprecationWarning")


class Classifier(nn.Module):
    """What the Trainer calls: keyword arguments in, loss and logits out."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, features: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.net(features)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class Pretrained(PreTrainedModel):
    """The same in the library's own kind of model, which writes a folder with a config."""

    config_class = PretrainedConfig

    def __init__(self, config: PretrainedConfig) -> None:
        super().__init__(config)
        self.net = nets.Net()
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """They are as PyTorch makes them."""

    forward = Classifier.forward


class Rows(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Rows as the Trainer takes them."""

    def __len__(self) -> int:
        return nets.ROWS

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        features, label = nets.samples()[index]
        return {"features": features, "labels": label}


class Spoils(TrainerCallback):
    """Does something to the folder before our callback reads it."""

    def __init__(self, spoil: Any) -> None:
        self.spoil = spoil

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.spoil(Path(args.output_dir) / f"checkpoint-{state.global_step}")


def rewritten(folder: Path, keep: Any) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file({key: tensor.clone() for key, tensor in tensors.items() if keep(key)}, folder / "model.safetensors")


def trainer(folder: Path, model: nn.Module, *callbacks: TrainerCallback, **options: Any) -> Trainer:
    args = TrainingArguments(
        output_dir=str(folder),
        **{
            "max_steps": 4,
            "per_device_train_batch_size": 8,
            "save_steps": 2,
            "eval_strategy": "steps",
            "eval_steps": 2,
            "report_to": [],
            "disable_tqdm": True,
            "use_cpu": True,
            "dataloader_pin_memory": False,
            **options,
        },
    )
    return Trainer(model=model, args=args, train_dataset=Rows(), eval_dataset=Rows(), callbacks=list(callbacks))


def said(caplog: Any) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "bnaudit"]


@pytest.mark.parametrize("make", [lambda: Classifier(nets.Net()), lambda: Classifier(nets.EvalInForward()), None])
def test_a_healthy_training_is_as_it_would_be_without(make: Any, tmp_path: Path, caplog: Any) -> None:
    trained = []
    for callbacks in ([NormAudit(fail_on="note")], []):
        torch.manual_seed(0)
        model = make() if make is not None else Pretrained(PretrainedConfig())
        made = trainer(tmp_path, model, *callbacks)
        made.train()
        made.evaluate()
        made.predict(Rows())
        trained.append({key: value.clone() for key, value in model.state_dict().items()})
    assert all(torch.equal(value, trained[1][key]) for key, value in trained[0].items())
    assert not said(caplog)
    assert (tmp_path / "checkpoint-4" / "model.safetensors").exists()


@pytest.mark.parametrize("batches", [1, 2])
def test_frozen_norms_that_update_stop_before_the_first_step(batches: int, tmp_path: Path) -> None:
    model = Classifier(nets.Frozen()).eval()  # as from_pretrained gives it: the Trainer's own train() counts
    before = {key: value.clone() for key, value in model.named_parameters()}
    with pytest.raises(UnfitModelError, match=r"BN501 .* in net\.backbone\.bn\{1,2\} \(2 layers\)"):
        trainer(tmp_path, model, NormAudit(), gradient_accumulation_steps=batches).train()
    assert all(torch.equal(value, before[key]) for key, value in model.named_parameters())
    assert int(model.net.backbone.bn1.num_batches_tracked) == 1


def test_a_norm_in_a_list_is_found_when_training_begins(tmp_path: Path) -> None:
    with pytest.raises(UnfitModelError, match=r"BN207 .* in net\.extra\[0\].*when training begins"):
        trainer(tmp_path, Classifier(nets.InAList()), NormAudit()).train()


def test_a_norm_that_ignores_eval_is_found_in_every_evaluation(tmp_path: Path) -> None:
    made = trainer(tmp_path, Classifier(nets.Disobedient()), NormAudit())
    for call in (made.train, made.evaluate, lambda: made.predict(Rows())):
        made.callback_handler.on_step_begin(made.args, made.state, made.control)
        with pytest.raises(UnfitModelError, match=r"BN401 .* in net\.backbone\.bn2: in training mode"):
            call()


def test_statistics_that_the_folder_lacks_are_found(tmp_path: Path) -> None:
    drops = Spoils(lambda folder: rewritten(folder, lambda key: "running_" not in key and "num_batches" not in key))
    with pytest.raises(UnfitModelError, match=r"BN101 .* in net\.backbone\.bn\{1,2\} \(2 layers\).*checkpoint-2"):
        trainer(tmp_path, Classifier(nets.Net()), drops, NormAudit()).train()
    one = Spoils(lambda folder: rewritten(folder, lambda key: key != "net.backbone.bn2.running_var"))
    with pytest.raises(UnfitModelError, match=r"BN101 .* in net\.backbone\.bn2: running_var is missing"):
        trainer(tmp_path / "one", Classifier(nets.Net()), one, NormAudit()).train()


def test_a_folder_without_the_norms_is_said_and_stops_nothing(tmp_path: Path, caplog: Any) -> None:
    adapter = Spoils(lambda folder: rewritten(folder, lambda key: "head" in key))
    trainer(tmp_path, Classifier(nets.KeptFrozen()), adapter, NormAudit()).train()
    (line,) = said(caplog)
    assert line.startswith("no tensor was written under the names of the 2 layers with running statistics: not checked")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: shutil.rmtree(folder),
        lambda folder: (folder / "model.safetensors").write_bytes(b"torn"),
        lambda folder: (folder / "model.safetensors").unlink(),
    ],
)
def test_a_folder_that_cannot_be_read_is_said_and_stops_nothing(spoil: Any, tmp_path: Path, caplog: Any) -> None:
    trainer(tmp_path, Classifier(nets.Net()), Spoils(spoil), NormAudit(), max_steps=2).train()
    (line,) = said(caplog)
    assert line.startswith("checkpoint-2 was not checked: ")


@pytest.mark.parametrize("options", [{"ignore": "BN501"}, {"intended": "BN501=net.backbone.*"}])
def test_what_is_meant_or_not_selected_is_silent(options: dict[str, Any], tmp_path: Path, caplog: Any) -> None:
    trainer(tmp_path, Classifier(nets.Frozen()), NormAudit(**options)).train()
    assert not said(caplog)


def test_a_torch_checkpoint_is_read_too(tmp_path: Path) -> None:
    def as_pickle(folder: Path) -> None:
        tensors = nets.without_statistics(load_file(folder / "model.safetensors"))
        torch.save(tensors, folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()

    with pytest.raises(UnfitModelError, match=r"BN101 .* in net\.backbone\.bn\{1,2\}"):
        trainer(tmp_path, Classifier(nets.Net()), Spoils(as_pickle), NormAudit()).train()
