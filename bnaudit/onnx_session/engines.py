"""Engines that compute a graph: onnxruntime as decisions need it and as production runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx
import onnxruntime  # type: ignore[import-untyped]
from numpy.typing import NDArray

from bnaudit.errors import BnauditError, UsageError
from bnaudit.onnx_session.bounds import stoppable, within_memory
from bnaudit.onnx_session.copies import Copy
from bnaudit.onnx_session.crashes import REMARK, name_running_statistics
from bnaudit.onnx_session.refusals import not_loaded, not_run
from bnaudit.onnx_session.skeleton import read_skeleton
from bnaudit.reading.onnx.dtypes import round_to_bfloat16
from bnaudit.session import NotPossibleError

Feeds = Mapping[str, NDArray[Any]]

_WIDENED = {"tensor(bfloat16)": "bfloat16"}
"""Types of onnxruntime that NumPy lacks: handed out as float32, which holds them exactly."""
_FATAL = 4
_EXTERNAL_FOLDER = "session.model_external_initializers_file_folder_path"
_LARGEST = (1 << 31) - 1
"""Bytes of one Protocol Buffers message."""


class Engine(Protocol):
    """A loaded graph."""

    @property
    def dtypes(self) -> Mapping[str, str]:
        """Element types of outputs that come in another, widened; complete after a run."""

    def run(self, names: Sequence[str], feeds: Feeds) -> list[Any]:
        """The values of these outputs. Raises RunError."""


class Engines(Protocol):
    """Makes engines of one model."""

    name: str
    """`onnxruntime 1.32.0`"""

    optimizes: bool
    """Whether `production` is another computation than `deciding`."""
    remarks: tuple[str, ...]
    """How what they compute differs from the file; complete once the skeleton was read."""
    any_order: bool
    """Whether the nodes of a copy may stand in any order."""

    @property
    def skeleton(self) -> onnx.ModelProto:
        """The model without large weights, to be copied."""

    def deciding(self) -> Engine:
        """The unchanged graph, as written, repeatable bit for bit. Raises NotPossibleError."""

    def production(self) -> Engine:
        """The unchanged graph with the optimizations that a session has by default. Raises NotPossibleError."""

    @property
    def path(self) -> Path:
        """The file."""

    def seed(self, seed: int) -> None:
        """What the random operators of all engines that are made from now on begin with."""

    def edited(self, model: onnx.ModelProto) -> Engine:
        """An edited copy, computed as `deciding` is. Raises NotPossibleError."""


class OrtEngine:
    """An onnxruntime session."""

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        aliases: Mapping[str, str],
        dtypes: Mapping[str, str],
        budget: float | None = None,
    ) -> None:
        """budget: seconds after which a run is stopped."""
        self._session = session
        self._budget = budget
        self._aliases = aliases
        self.dtypes = dtypes
        self._narrow = {each.name for each in session.get_inputs() if each.type in _WIDENED}
        self._options = onnxruntime.RunOptions()
        self._options.log_severity_level = _FATAL

    def run(self, names: Sequence[str], feeds: Feeds) -> list[Any]:
        """The values of these outputs. Raises RunError, and BudgetSpent for a run that does not end."""
        asked = [self._aliases.get(name, name) for name in names]
        try:
            with within_memory():
                return stoppable(lambda: self._values(asked, feeds), self._options, self._budget)
        except BnauditError:
            raise
        except Exception as error:
            raise not_run(error) from error

    def _values(self, names: Sequence[str], feeds: Feeds) -> list[Any]:
        if self._narrow:
            values = {name: self._value(name, array) for name, array in feeds.items()}
            return [each.numpy() for each in self._session.run_with_ort_values(names, values, self._options)]
        return list(self._session.run(names, dict(feeds), self._options))

    def _value(self, name: str, array: NDArray[Any]) -> onnxruntime.OrtValue:
        if name not in self._narrow:
            return onnxruntime.OrtValue.ortvalue_from_numpy(array)
        bits = (round_to_bfloat16(array.astype(np.float32)).view(np.uint32) >> 16).astype(np.uint16)
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, onnx.TensorProto.BFLOAT16)


class OrtEngines:
    """onnxruntime's sessions of one file."""

    optimizes = True
    any_order = True

    def __init__(
        self, path: Path, device: str = "cpu", custom_ops: Sequence[str] = (), budget: float | None = None
    ) -> None:
        """budget: seconds after which a single run is stopped."""
        self.name = f"onnxruntime {onnxruntime.__version__}"
        self.path = path
        self._providers = _providers(device)
        self._custom_ops = custom_ops
        self._budget = budget
        self._skeleton: onnx.ModelProto | None = None
        self.remarks: tuple[str, ...] = ()
        self.seeded = False

    @property
    def skeleton(self) -> onnx.ModelProto:
        """The model without large weights; read when it is first asked for."""
        if self._skeleton is None:
            self._skeleton = read_skeleton(self.path)
            if name_running_statistics(self._skeleton):
                self.remarks = (REMARK,)
        return self._skeleton

    def seed(self, seed: int) -> None:
        """Set onnxruntime's seed, which is one for the process."""
        self.seeded = True
        onnxruntime.set_seed(seed)

    def deciding(self) -> Engine:
        """The unchanged graph without any optimization."""
        if self.skeleton and self.remarks:
            return self.edited(self.skeleton)
        session = self._session(str(self.path), self._options(optimized=False))
        if any(each.type in _WIDENED for each in session.get_outputs()):
            return self.edited(self.skeleton)
        return OrtEngine(session, {}, {}, self._budget)

    def production(self) -> Engine:
        """The unchanged graph with all optimizations, which are a session's default."""
        if self.skeleton and self.remarks:
            return OrtEngine(self._from_bytes(self.skeleton, optimized=True), {}, {}, self._budget)
        session = self._session(str(self.path), self._options(optimized=True))
        if not any(each.type in _WIDENED for each in session.get_outputs()):
            return OrtEngine(session, {}, {}, self._budget)
        return self._widening(self.skeleton, session, optimized=True)

    def edited(self, model: onnx.ModelProto) -> Engine:
        """A copy without any optimization, its weights read from where they are."""
        session = self._from_bytes(model, optimized=False)
        if any(each.type in _WIDENED for each in session.get_outputs()):
            return self._widening(model, session, optimized=False)
        return OrtEngine(session, {}, {}, self._budget)

    def _widening(self, model: onnx.ModelProto, session: onnxruntime.InferenceSession, *, optimized: bool) -> Engine:
        """The same with outputs that NumPy lacks a type for cast to float32."""
        dtypes = {each.name: _WIDENED[each.type] for each in session.get_outputs() if each.type in _WIDENED}
        copy = Copy(model)
        aliases = {name: copy.cast(copy.end, name, onnx.TensorProto.FLOAT) for name in dtypes}
        kept = [output for output in copy.graph.output if output.name not in dtypes]
        del copy.graph.output[:]
        copy.graph.output.extend(kept)
        for name in aliases.values():
            copy.give_out(name)
        return OrtEngine(self._from_bytes(copy.finish(), optimized=optimized), aliases, dtypes, self._budget)

    def _from_bytes(self, model: onnx.ModelProto, *, optimized: bool) -> onnxruntime.InferenceSession:
        if model.ByteSize() > _LARGEST:
            raise NotPossibleError(
                "a copy of the graph would be larger than the 2 GB that Protocol Buffers allow",
                remedy="save the model with external data",
            )
        options = self._options(optimized=optimized)
        options.add_session_config_entry(_EXTERNAL_FOLDER, str(self.path.parent.absolute()))
        return self._session(model.SerializeToString(), options)

    def _options(self, *, optimized: bool) -> onnxruntime.SessionOptions:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = _FATAL
        options.use_deterministic_compute = not optimized
        levels = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
        for library in self._custom_ops:
            try:
                options.register_custom_ops_library(str(Path(library).absolute()))
            except Exception as error:
                raise UsageError(
                    f"--custom-ops {library} cannot be loaded", where=str(error), remedy="give a library of operators"
                ) from error
        return options

    def _session(self, model: str | bytes, options: onnxruntime.SessionOptions) -> onnxruntime.InferenceSession:
        try:
            with within_memory():
                return onnxruntime.InferenceSession(model, options, providers=self._providers)
        except Exception as error:
            raise not_loaded(error) from error


def _providers(device: str) -> list[str]:
    """The execution providers for a device as PyTorch writes it, `cpu`, `cuda` or `cuda:1`."""
    kind = device.partition(":")[0]
    if kind == "cpu":
        return ["CPUExecutionProvider"]
    if kind == "cuda" and "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        return ["CUDAExecutionProvider", "CPUExecutionProvider"]
    if kind == "cuda":
        raise UsageError("this onnxruntime cannot use CUDA", remedy="install onnxruntime-gpu, or leave --device out")
    raise UsageError(f"onnxruntime has no device {device!r} here", remedy="give cpu or cuda")
