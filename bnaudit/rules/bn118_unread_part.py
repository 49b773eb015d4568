"""A part of the file was not read, with the reason.

## What it finds

Every gap in the reading of the file: a norm layer's tensor that is sparse, nested or of a wrapper class, an object
whose reconstruction would run code, a graph operator that is unknown and a norm by its name, a shard that is missing
or damaged. One note per gap, with the place and the reason.

## Why it matters

bnaudit never executes what it reads, so some parts stay closed. What was not looked at is not clean: where norm
layers may stand behind a gap, or a running mean or variance is there and could not be read, the verdict *buffers
complete* stays open, and a file whose norm layers could all not be read counts as not checked (exit code 3).

## Example

    state = model.state_dict()
    state["bn1.running_var"] = state["bn1.running_var"].to_sparse()
    torch.save(state, "model.pt")

The sparse variance is a gap: *bn1.running_var: a sparse tensor is not read*. Whether it holds NaN, zeros or sound
values is unknown, so no rule speaks of it and no verdict passes because of it.

## How to fix

Save the model in a form that is plain data:

    torch.save(model.state_dict(), "model.pt")                       # dense tensors under names
    torch.export.save(torch.export.export(model, (x,)), "model.pt2")  # with the graph
    torch.onnx.export(model, (x,), "model.onnx")                     # for other runtimes

A damaged file has to be copied or saved again.

## Limits

- A gap is a statement about the reading, not a fault of the model.
- A gap behind which no norm layer can stand leaves every verdict as it is.
- A file that cannot be read at all is an error with exit code 2, not a gap.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.description import Description
from bnaudit.results import Hit, Question, Severity
from bnaudit.rules import Case, rule

_MAY_HIDE = "a part that may hold norm layers was not read: save it as plain tensors or a graph"
_UNREAD = "running statistics were not read: save them as plain tensors"


@rule(id="BN118", severity=Severity.NOTE, question=Question.BUFFERS)
def unread_part(case: Case) -> Iterator[Hit]:
    """One hit per gap."""
    statistics = _unread_statistics(case.subject)
    for gap in case.subject.gaps:
        yield Hit(
            message=f"{gap.where}: {gap.why}" if gap.where else gap.why,
            advice="save the model as plain tensors or a graph (state_dict(), .pt2, ONNX) to have it all read",
            undecided=_MAY_HIDE if gap.hides_norms else _UNREAD if gap.where in statistics else "",
        )


def _unread_statistics(description: Description) -> set[str]:
    """The stored names of running means and variances that exist and could not be read."""
    tensors = (tensor for _, layer in description.layers for tensor in (layer.running_mean, layer.running_var))
    return {tensor.name for tensor in tensors if tensor is not None and tensor.unread}
