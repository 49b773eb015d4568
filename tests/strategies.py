"""Draws descriptions that a format could return, from ordinary to absurd, with every field also unknown."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from bnaudit.description import (
    CUMULATIVE,
    Artifact,
    Carrier,
    Description,
    Evidence,
    Gap,
    GraphInput,
    HiddenModule,
    ModeDependent,
    NormKind,
    NormLayer,
    Part,
    PickleImport,
    StoredTensor,
)

_PATHS = (
    "",
    "bn",
    "bn1",
    "layer1.0.bn1",
    "layer1.1.bn1",
    "module.layer2.0.bn2",
    "_orig_mod.fc.1",
    "norms[0]",
    "0",
    "1",
)
_FLOATS = st.one_of(
    st.sampled_from((0.0, -0.0, 1.0, -1.0, 0.1, 1e-5, 1e-45, 1e38, -1e308, 65504.0)),
    st.floats(width=32),
    st.floats(),
)
_INTEGERS = st.one_of(st.integers(-2, 1000), st.sampled_from((-(2**63), 2**63 - 1, 2**31, 2**53 + 1)))
_SHAPES = st.sampled_from(((), (0,), (1,), (3,), (3,), (3,), (4,), (2, 3), (1, 3, 1, 1), (0, 3)))
_FLOATING = ("float32", "float32", "float16", "bfloat16", "float64", "float8_e4m3fn")
_DTYPES = st.sampled_from((*_FLOATING, "int64", "int8", "bool"))

texts = st.text(max_size=12)
names = st.one_of(st.sampled_from(_PATHS), texts)
flags = st.sampled_from((None, True, False))
unsure = st.none()


@st.composite
def stored_tensors(draw: st.DrawFn, name: str = "bn.weight", integer: bool = False) -> StoredTensor:
    """One tensor: with values, named without them, or unreadable."""
    dtype = draw(st.sampled_from(("int64", "int64", "float32"))) if integer else draw(_DTYPES)
    shape = draw(st.sampled_from(((), (), (1,), (2,), (0,)))) if integer else draw(_SHAPES)
    settings: dict[str, Any] = {"name": name, "dtype": dtype, "shape": shape, "requires_grad": draw(flags)}
    if draw(st.sampled_from((False, False, False, True))):
        return StoredTensor(values=None, absence="meta device", unread=draw(st.booleans()), **settings)
    count = int(np.prod(shape, dtype=int))
    numbers = draw(st.lists(_FLOATS if "float" in dtype else _INTEGERS, min_size=count, max_size=count))
    values: Any = np.array(numbers, np.float64 if "float" in dtype else np.int64).reshape(shape)
    values.setflags(write=False)
    return StoredTensor(values=values, **settings)


@st.composite
def norm_layers(draw: st.DrawFn) -> NormLayer:
    """One layer; whatever can be unknown or missing sometimes is."""
    name = draw(names)

    def tensor(leaf: str, integer: bool = False) -> StoredTensor | None:
        there = draw(st.sampled_from((True, True, True, False)))
        return draw(stored_tensors(f"{name}.{leaf}", integer)) if there else None

    return NormLayer(
        name=name,
        kind=draw(st.sampled_from((NormKind.BATCH, NormKind.BATCH, *NormKind))),
        evidence=draw(st.sampled_from(Evidence)),
        class_name=draw(st.one_of(unsure, st.just("torch.nn.modules.batchnorm.BatchNorm2d"), texts)),
        metadata_version=draw(st.one_of(unsure, st.sampled_from((1, 2)), _INTEGERS)),
        declared_channels=draw(st.one_of(unsure, st.sampled_from((0, 1, 3)), _INTEGERS)),
        eps=draw(st.one_of(unsure, st.sampled_from((1e-5, 1e-3)), _FLOATS)),
        momentum=draw(st.one_of(unsure, st.just(CUMULATIVE), st.sampled_from((0.1, 0.9, 0.0, 1.0)), _FLOATS)),
        affine=draw(flags),
        tracks_statistics=draw(flags),
        training=draw(flags),
        graph_training=draw(flags),
        statistics_from_input=draw(flags),
        spelled_out=draw(st.booleans()),
        weight=tensor("weight"),
        bias=tensor("bias"),
        running_mean=tensor("running_mean"),
        running_var=tensor("running_var"),
        num_batches_tracked=tensor("num_batches_tracked", integer=True),
        hooked=draw(flags),
    )


@st.composite
def parts(draw: st.DrawFn) -> Part:
    """One model of a file; names may repeat."""
    kinds = st.sampled_from(("dropout", "recurrent", "attention", "rrelu", "stochastic-depth"))
    return Part(
        name=draw(st.sampled_from(("", "model", "state_dict", "ema", "model_ema"))),
        carrier=draw(st.sampled_from(Carrier)),
        layers=tuple(draw(st.lists(norm_layers(), max_size=5))),
        mode_dependent=tuple(
            draw(
                st.lists(
                    st.builds(
                        ModeDependent,
                        name=names,
                        kind=kinds,
                        class_name=st.just("torch.nn.modules.dropout.Dropout"),
                        probability=st.one_of(unsure, _FLOATS),
                        training=flags,
                        graph_training=flags,
                    ),
                    max_size=2,
                )
            )
        ),
        hidden=tuple(
            draw(
                st.lists(
                    st.builds(
                        HiddenModule,
                        path=names,
                        class_name=texts,
                        training=flags,
                        mode_dependent=st.lists(names, max_size=2).map(tuple),
                        in_training=st.booleans(),
                    ),
                    max_size=2,
                )
            )
        ),
        wrappers=tuple(
            draw(st.lists(st.sampled_from(("DataParallel", "AveragedModel", "OptimizedModule")), max_size=2))
        ),
        averaged_over=draw(st.one_of(unsure, _INTEGERS)),
        has_metadata=draw(flags),
        tensors=draw(st.integers(0, 100)),
        floating_dtypes=tuple(sorted(draw(st.sets(st.sampled_from(_FLOATING))))),
        trainable=draw(st.one_of(unsure, st.integers(0, 10))),
        frozen=draw(st.one_of(unsure, st.integers(0, 10))),
        buffers_to_mutate=tuple(draw(st.lists(names, max_size=2))),
        inputs=tuple(
            draw(
                st.lists(
                    st.builds(
                        GraphInput,
                        name=names,
                        dtype=st.sampled_from(("float32", "sequence", "")),
                        shape=st.one_of(
                            unsure,
                            st.lists(st.one_of(unsure, st.just("batch"), _INTEGERS), max_size=4).map(tuple),
                        ),
                    ),
                    max_size=2,
                )
            )
        ),
        operators=draw(st.one_of(unsure, st.integers(0, 10))),
        traced=draw(flags),
        folded=draw(st.sampled_from(("", "", "Conv with a bias named bn1"))),
    )


@st.composite
def descriptions(draw: st.DrawFn) -> Description:
    """One artifact with up to three models."""
    return Description(
        artifact=Artifact(
            path=draw(st.one_of(st.just("model.pt"), texts)),
            format="PyTorch zip checkpoint",
            size=draw(st.integers(0, 2**50)),
            bytes_read=draw(st.integers(0, 2**40)),
            producer=draw(st.one_of(unsure, texts)),
        ),
        parts=tuple(draw(st.lists(parts(), max_size=3))),
        gaps=tuple(
            draw(
                st.lists(
                    st.builds(Gap, where=names, why=st.text(min_size=1, max_size=12), hides_norms=st.booleans()),
                    max_size=2,
                )
            )
        ),
        imports=tuple(
            draw(
                st.lists(
                    st.builds(
                        PickleImport,
                        name=st.one_of(st.sampled_from(("posix.system", "builtins.getattr", "numpy.dtype")), texts),
                        called=st.booleans(),
                        arguments=st.lists(texts, max_size=3).map(tuple),
                        foreign_target=st.booleans(),
                    ),
                    max_size=3,
                )
            )
        ),
        has_optimizer=draw(flags),
        steps=draw(st.one_of(unsure, _INTEGERS)),
        steps_name=draw(st.sampled_from(("", "global_step"))),
        remarks=tuple(draw(st.lists(texts, max_size=2))),
    )
