"""The graph itself computes in training mode, and nothing can switch it afterwards.

## What it finds

Operators whose training form is written into the artifact:

- ONNX: `BatchNormalization` in training form (opset 1–6 `is_test` 0 or absent, 7–13 five outputs, 14 and later
  `training_mode` 1), `Dropout` with `is_test` 0 or absent (1–6) or a third input that is constant true (12 and later);
- exported programs (.pt2): `aten.batch_norm` with training true, the decomposed `_native_batch_norm_legit` forms,
  dropout, recurrent layers and attention that drop;
- TorchScript: a literal `True` as the training argument of `torch.batch_norm` or `torch.dropout`.

## Why it matters

An exported graph has no `eval()` that reaches these operators. A batch norm normalizes every request with the
statistics of whatever else stands in the batch; a dropout makes every answer random.

## Worked arithmetic

The same input 6 is sent twice, with another companion each time (one channel, no affine):

    batch (6, 8)   mean 7, variance 1   6 → (6 − 7) / √(1 + 1e-5) = −1
    batch (6, 4)   mean 5, variance 1   6 → (6 − 5) / √(1 + 1e-5) = +1

In inference form both would be (6 − stored mean) / √(stored variance + ε), whatever the companion.

## How to fix

    model.eval()
    torch.onnx.export(model, args, "model.onnx")            # with dynamo=False also training=TrainingMode.EVAL
    torch.export.save(torch.export.export(model, args), "model.pt2")
    torch.jit.trace(model, args).save("model.ts")

The newer ONNX exporter (dynamo=True) writes batch norm in inference form even for a model in training mode, but
leaves Dropout in training form, so that only the dropouts are reported. Where `F.dropout(x, p)` or
`F.batch_norm(..., training=True)` stands in `forward`, pass `training=self.training`.

## Limits

- Instance norm and weight standardization run the same operator in training form on a batch axis that a view made 1;
  they mix no samples and are not reported. Where neither the graph nor a run settles
  that, there is only a note.
- Scripted code that computes its training argument obeys `eval()` and is not reported.
- An operator that drops and whose probability is not in the graph is reported at medium confidence.
- A batch norm that has no statistics to use is told by BN204 or BN211: exporting in eval mode would not help it.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.description import Carrier, ModeDependent, NormKind, NormLayer, Part
from bnaudit.modes import drops_at_random, keeps_buffers, norm_in_training, other_in_training
from bnaudit.results import Confidence, Hit, Question, Severity
from bnaudit.rules import Case, rule
from bnaudit.run_proofs import mixes_samples

_ADVICE = {
    Carrier.GRAPH: "call model.eval() and export to ONNX again: the graph cannot be switched afterwards",
    Carrier.PROGRAM: "call model.eval() before torch.export.export: an exported program cannot be switched afterwards",
    Carrier.SCRIPT: "call model.eval() and trace again; in forward(), pass training=self.training",
}


@rule(
    id="BN202",
    severity=Severity.ERROR,
    question=Question.EVAL_MODE,
    yields_to=("BN203", "BN211"),
)
def exported_in_training_mode(case: Case) -> Iterator[Hit]:
    """One hit per operator in training form."""
    for part in case.subject.parts:
        if part.carrier not in _ADVICE:
            continue
        for layer in part.layers:
            if layer.graph_training:
                yield from _norm(part, layer, mixes_samples(case.measured, part.name, layer.name))
        for entry in part.mode_dependent:
            if entry.graph_training and drops_at_random(entry) is not False:
                yield _other(part, entry)


def _norm(part: Part, layer: NormLayer, mixes: bool | None) -> Iterator[Hit]:
    if layer.tracks_statistics is not None and not keeps_buffers(layer):
        return  # With nothing stored no export would be another: BN101 and BN204 say so.
    if layer.kind in (NormKind.BATCH, NormKind.SYNC_BATCH):
        yield Hit(
            message=f"exported in training mode: it {norm_in_training(layer.kind)}",
            advice=_ADVICE[part.carrier],
            layer=layer.name,
            part=part.name,
            value="training form",
            limit="inference form",
        )
    elif layer.kind is NormKind.UNKNOWN and mixes is None:
        yield Hit(
            message="an operator in training form; the graph does not settle whether it normalizes over the batch",
            advice="compare the output for one input alone and with companions",
            layer=layer.name,
            part=part.name,
            value="training form",
            severity=Severity.NOTE,
            confidence=Confidence.LOW,
            undecided="an operator in training form may be an instance norm",
        )


def _other(part: Part, entry: ModeDependent) -> Hit:
    known = entry.kind == "rrelu" or entry.probability is not None
    doing, _ = other_in_training(entry)
    return Hit(
        message=f"exported in training mode: it {doing}" + ("" if known else " (its probability is not in the file)"),
        advice=_ADVICE[part.carrier],
        layer=entry.name,
        part=part.name,
        value="training form",
        limit="inference form",
        confidence=Confidence.HIGH if known else Confidence.MEDIUM,
    )
