"""A part of the file was not read, with the reason.

## What it finds

Every gap in the reading of the file: a sparse or nested tensor, a wrapper subclass, an object whose reconstruction
would run code, a graph operator of an unknown domain, a damaged entry. One note per gap, with the place and the
reason.

## Why it matters

bnaudit never executes what it reads, so some parts stay closed. What was not looked at is not clean: where norm
layers may stand behind a gap, the verdict *buffers complete* stays open, and a file whose norm layers could all not
be read counts as not checked (exit code 3).

## Example

    state = model.state_dict()
    state["embedding.weight"] = state["embedding.weight"].to_sparse()
    torch.save(state, "model.pt")

The sparse tensor is a gap. It cannot hold a batch norm's statistics, but another tensor with the same fate could.

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

from bnaudit.results import Hit, Question, Severity
from bnaudit.rules import Case, rule


@rule(id="BN118", severity=Severity.NOTE, question=Question.BUFFERS)
def unread_part(case: Case) -> Iterator[Hit]:
    """One hit per gap."""
    for gap in case.subject.gaps:
        yield Hit(
            message=f"{gap.where}: {gap.why}" if gap.where else gap.why,
            advice="save the model as plain tensors or a graph (state_dict(), .pt2, ONNX) to have it all read",
            undecided="a part that may hold norm layers was not read: save it as plain tensors or a graph"
            if gap.hides_norms
            else "",
        )
