"""Every sample and what an audit must say of it: of the file alone, and of a run."""

from __future__ import annotations

from sample_models.compare_catalogue import COMPARE
from sample_models.expected import Expected, Run, Sample
from sample_models.running_catalogue import RUNNING_CONTROLS, RUNNING_DEFECTS

STAGE_2 = ("layer2.0.bn1", "layer2.0.bn2", "layer2.0.downsample.1")
NORMS = ("bn1", "layer1.0.bn1", "layer1.0.bn2", *STAGE_2)
DIGITS = "digits.py:build"
FOLDED = ("buffers", "train-eval-gap")

HEALTHY = {
    "healthy/state_dict.pt": Sample("a state dict", run=Run(DIGITS)),
    "healthy/state_dict_legacy.pth": Sample("a state dict in the format before PyTorch 1.6", run=Run(DIGITS)),
    "healthy/training_checkpoint.ckpt": Sample(
        "weights, optimizer and step count, laid out as Lightning does", run=Run(DIGITS)
    ),
    "healthy/pickled_module.pt": Sample("a whole module, saved in eval mode", run=Run(allowed="trust_pickle")),
    "healthy/torchscript_scripted.pt": Sample("TorchScript, scripted", run=Run(allowed="run")),
    "healthy/torchscript_traced.pt": Sample("TorchScript, traced in eval mode", run=Run(allowed="run")),
    "healthy/torchscript_frozen.pt": Sample(
        "TorchScript, frozen: the norms are folded away", run=Run(allowed="run", open=FOLDED)
    ),
    "healthy/exported_program.pt2": Sample("torch.export, eval mode", run=Run(allowed="run")),
    "healthy/exported_program_flat.pt2": Sample(
        "torch.export in the archive layout of PyTorch 2.1 to 2.7", run=Run(allowed="run")
    ),
    "healthy/model.safetensors": Sample("safetensors", run=Run(DIGITS)),
    "healthy/hf_safetensors": Sample("a Hugging Face folder with two safetensors shards", run=Run(DIGITS)),
    "healthy/hf_bin": Sample("a Hugging Face folder with two PyTorch shards", run=Run(DIGITS)),
    "healthy/distributed_checkpoint": Sample(
        "a folder of torch.distributed.checkpoint", run=Run(DIGITS, allowed="trust_pickle")
    ),
    "healthy/arrays.npz": Sample("NumPy arrays under the names of a state dict", run=Run(DIGITS)),
    "healthy/detectron2_style.pkl": Sample(
        "a pickle of NumPy arrays, laid out as detectron2 does", run=Run(DIGITS, allowed="trust_pickle")
    ),
    "healthy/norms_kept.onnx": Sample("ONNX with its BatchNormalization nodes", run=Run()),
    "healthy/norms_folded.onnx": Sample("ONNX with the norms folded into the convolutions", run=Run(open=FOLDED)),
}

DEFECTS = {
    "defects/buffers_dropped_at_save.pt": Sample(
        "a filter dropped running_mean and running_var of the second stage",
        (Expected("BN101", STAGE_2),),
    ),
    "defects/averaged_without_update_bn.pth": Sample(
        "averaged weights beside the raw ones, with the raw model's statistics (update_bn was not called)",
        (Expected("BN117", None),),
    ),
    "defects/saved_in_training_mode.pt": Sample(
        "a whole module, saved without eval()",
        (Expected("BN201", (*NORMS, "dropout")),),
    ),
    "defects/torchscript_training_mode.pt": Sample(
        "scripted and saved without eval()",
        (Expected("BN201", (*NORMS, "dropout")),),
    ),
    "defects/torchscript_traced_then_eval.pt": Sample(
        "traced in training mode, then eval(): the flags say eval, the code says training",
        (Expected("BN203", (*NORMS, "dropout")),),
    ),
    "defects/exported_in_training_mode.onnx": Sample(
        "exported with training=TrainingMode.TRAINING",
        (Expected("BN202", None),),
    ),
    "defects/run_time_statistics.onnx": Sample(
        "norms without running statistics: the graph computes them from its input",
        (Expected("BN211", None),),
    ),
    "defects/exported_program_training_mode.pt2": Sample(
        "torch.export without eval()",
        (Expected("BN202", None),),
    ),
    "defects/norm_in_plain_list.pt": Sample(
        "norms in a plain list stay in training mode after eval()",
        (Expected("BN207", ("norms[0]", "norms[1]")),),
    ),
    "defects/nan_variance.pt": Sample(
        "one channel's running variance is NaN",
        (Expected("BN106", ("layer2.0.bn2",)),),
    ),
    "defects/mean_and_variance_swapped.npz": Sample(
        "a conversion that exchanged running mean and running variance",
        (Expected("BN107", NORMS),),
    ),
    "defects/half_precision_statistics.ckpt": Sample(
        "trained wholly in bfloat16: the running statistics cannot follow",
        (Expected("BN110", NORMS),),
    ),
    "defects/averaged_counters.pt": Sample(
        "three checkpoints averaged entry by entry, counters included",
        (Expected("BN111", NORMS),),
    ),
    "defects/doubled_counters.pt": Sample(
        "activation checkpointing: the second stage saw every batch twice",
        notes=("BN112",),
    ),
    "defects/frozen_but_updating.pt": Sample(
        "fine-tuning with requires_grad=False on the backbone, whose norms still update",
        (Expected("BN501", NORMS), Expected("BN201", ("dropout",))),
    ),
    "defects/stale_after_freeze.pt": Sample(
        "track_running_stats switched off to freeze the norms, the old buffers left behind",
        (Expected("BN205", NORMS),),
    ),
    "defects/virgin_statistics.pt": Sample(
        "trained from scratch with every norm in eval mode: the statistics are still the initial ones",
        (Expected("BN103", NORMS),),
    ),
    "defects/dry_run_statistics.pt": Sample(
        "only a forward of zeros was made in training mode",
        (Expected("BN104", NORMS),),
    ),
    "defects/immature_statistics.pt": Sample(
        "saved after eight steps: 43 % of the statistics is still the initial value",
        (Expected("BN105", NORMS),),
    ),
    "defects/hostile_pickle.pt": Sample(
        "a good state dict in a pickle that also runs a (harmless) shell command",
        (Expected("BN901", None),),
    ),
    **RUNNING_DEFECTS,
}

CONTROLS = {
    "controls/ported_from_keras.pt": Sample(
        "counter 0, momentum 0, epsilon 1e-3, real statistics: healthy",
        notes=("BN208",),
    ),
    "controls/fresh_head.pt": Sample(
        "a trained backbone with a new head: its norm never ran",
        (Expected("BN103", ("fc.1",)),),
    ),
    "controls/fresh_model.pt": Sample("never trained: nothing to complain about", notes=("BN103",)),
    "controls/ema_with_copied_buffers.pth": Sample(
        "averaged weights close to the raw ones, with copied statistics: the documented behaviour",
        notes=("BN117",),
    ),
    "controls/group_norm.pt": Sample("group norm only: no buffers to miss", run=Run("digits.py:build_group_norm")),
    **RUNNING_CONTROLS,
}

SAMPLES = {**HEALTHY, **DEFECTS, **CONTROLS, **COMPARE}
"""Path below `sample_models/` → what it is and what must be found."""

CANARY = "bnaudit-canary-was-executed"
"""The file that unpickling `hostile_pickle.pt` would create in the working directory."""
