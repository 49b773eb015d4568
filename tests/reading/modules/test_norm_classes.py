"""What the names of norm classes in use say (torch, torchvision, timm, apex, detectron2, transformers, inplace_abn)."""

from __future__ import annotations

import pytest

from bnaudit.description import NormKind
from bnaudit.reading.modules.norm_classes import kind_of_class

NAMES = {
    "torch.nn.modules.batchnorm.BatchNorm2d": NormKind.BATCH,
    "torch.nn.modules.batchnorm.LazyBatchNorm1d": NormKind.BATCH,
    "torch.nn.modules.batchnorm.SyncBatchNorm": NormKind.SYNC_BATCH,
    "torch.ao.nn.quantized.modules.batchnorm.BatchNorm2d": NormKind.BATCH,
    "torch.ao.nn.intrinsic.quantized.modules.bn_relu.BNReLU2d": NormKind.BATCH,
    "torch.nn.intrinsic.qat.modules.conv_fused.ConvBn2d": NormKind.BATCH,
    "torchvision.ops.misc.FrozenBatchNorm2d": NormKind.FROZEN_BATCH,
    "timm.layers.norm_act.BatchNormAct2d": NormKind.BATCH,
    "timm.layers.norm_act.SyncBatchNormAct": NormKind.SYNC_BATCH,
    "timm.layers.norm_act.FrozenBatchNormAct2d": NormKind.FROZEN_BATCH,
    "apex.parallel.optimized_sync_batchnorm.SyncBatchNorm": NormKind.SYNC_BATCH,
    "detectron2.layers.batch_norm.NaiveSyncBatchNorm": NormKind.SYNC_BATCH,
    "sync_batchnorm.batchnorm.SynchronizedBatchNorm2d": NormKind.SYNC_BATCH,
    "inplace_abn.abn.ABN": NormKind.BATCH,
    "inplace_abn.abn.InPlaceABN": NormKind.BATCH,
    "inplace_abn.abn.InPlaceABNSync": NormKind.SYNC_BATCH,
    "models.Batch_Norm": NormKind.BATCH,
    "torch.nn.modules.instancenorm.InstanceNorm2d": NormKind.INSTANCE,
    "torch.nn.modules.normalization.GroupNorm": NormKind.GROUP,
    "guided_diffusion.nn.GroupNorm32": NormKind.GROUP,
    "torch.nn.modules.normalization.LayerNorm": NormKind.LAYER,
    "timm.layers.norm.LayerNorm2d": NormKind.LAYER,
    "torch.nn.modules.normalization.RMSNorm": NormKind.RMS,
    "transformers.models.llama.modeling_llama.LlamaRMSNorm": NormKind.RMS,
    "transformers.models.t5.modeling_t5.T5LayerNorm": NormKind.RMS,
    "torch.nn.modules.normalization.LocalResponseNorm": None,
    "models.BatchInstanceNorm2d": None,
    "models.Norm": None,
    "models.BN": None,
    "models.batch_models.Scaler": None,
    "": None,
}


@pytest.mark.parametrize(("name", "kind"), NAMES.items())
def test_what_a_class_name_says(name: str, kind: NormKind | None) -> None:
    assert kind_of_class(name) is kind
