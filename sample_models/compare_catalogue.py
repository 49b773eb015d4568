"""Samples that say something only beside another one: what comparing them must find.

Each is a small net for digits, as in `compare/trained.pt` or its graph, with one thing changed. To add one: a writer in
`write_compare.py`, an entry here with `against`, and `python -m sample_models.make compare/<file>`.
"""

from __future__ import annotations

from sample_models.expected import Against, Expected, Sample

NORMS = ("bn1", "bn2")
FOLDED = ("bn1", "layer1.0.bn1", "layer1.0.bn2", "layer2.0.bn1", "layer2.0.bn2", "layer2.0.downsample.1")
TRAINED = "compare/trained.pt"
GRAPH = "compare/trained.onnx"

COMPARE = {
    TRAINED: Sample("a state dict: what is trusted"),
    GRAPH: Sample("its ONNX export: the same", against=Against(TRAINED)),
    "compare/stray_forward.pt": Sample(
        "loaded, and run once in training mode before it was saved again",
        against=Against(TRAINED, (Expected("BN601", NORMS),)),
    ),
    "compare/buffers_not_averaged.pt": Sample(
        "weights averaged over the last 220 steps, statistics of the last one",
        against=Against(TRAINED, (Expected("BN602", NORMS),)),
    ),
    "compare/renamed.pt": Sample(
        "saved from within a larger model: every name has a prefix",
        against=Against(TRAINED, (Expected("BN603", None),)),
    ),
    "compare/epsilon_changed.onnx": Sample(
        "rebuilt with Keras' default epsilon, and exported",
        against=Against(GRAPH, (Expected("BN604", NORMS),)),
    ),
    "compare/folded_with_older_statistics.onnx": Sample(
        "norms folded into convolutions with statistics of ten batches away",
        against=Against("healthy/norms_kept.onnx", (Expected("BN605", FOLDED),)),
    ),
    "compare/sums_not_divided.pt": Sample(
        "statistics summed over 44 batches and never divided by 44",
        against=Against(TRAINED, (Expected("BN608", NORMS),)),
    ),
    "compare/finetuned.pt": Sample(
        "trained further: weights and statistics moved",
        against=Against(TRAINED, notes=("BN607",)),
    ),
    "compare/float16.pt": Sample("a copy in half precision: equal up to rounding", against=Against(TRAINED)),
}
