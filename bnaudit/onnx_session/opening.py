"""From a described file to a session of it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bnaudit.description import Part
from bnaudit.onnx_session.engines import OrtEngines
from bnaudit.onnx_session.reference import ReferenceEngines
from bnaudit.onnx_session.refusals import LacksKernelError
from bnaudit.onnx_session.session import OnnxSession
from bnaudit.onnx_session.survey import survey
from bnaudit.run_options import RunOptions
from bnaudit.session import NotPossibleError


@contextmanager
def opened(path: Path, part: Part, options: RunOptions) -> Iterator[OnnxSession]:
    """A session of the graph in a file. Raises UnreadableError, NotPossibleError, UsageError."""
    engines = OrtEngines(path, options.device, options.custom_ops, options.budget)
    try:
        yield _session(engines, part)
    finally:
        if engines.seeded:  # the seed that was set before cannot be asked for: any other than ours
            engines.seed(random.SystemRandom().getrandbits(31))


def _session(engines: OrtEngines, part: Part) -> OnnxSession:
    found = survey(engines.path, part)
    try:
        return OnnxSession(engines, part, found)
    except LacksKernelError as lacking:
        remark = f"{lacking.what} ({lacking.where}): everything is computed by onnx's reference evaluator"
        try:
            return OnnxSession(ReferenceEngines(engines.path, engines.skeleton), part, found, also=(remark,))
        except NotPossibleError as error:
            raise lacking from error
