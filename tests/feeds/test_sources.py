"""Every kind of inputs, and what is said of those that are none."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from feeds.sessions import FakeSession, takes
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_tensors
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from bnaudit.description import Carrier
from bnaudit.errors import UnreadableError, UsageError
from bnaudit.feeds import Feed
from bnaudit.feeds.opening import open_feed
from bnaudit.run_options import RunOptions
from bnaudit.session import Batch

X = np.random.default_rng(0).random((60, 1, 4, 4), dtype=np.float32)
Y = np.arange(60)
ROWS = {row.tobytes() for row in X}


def feed_of(inputs: object, session: FakeSession | None = None, **options: Any) -> Feed:
    return open_feed(session or FakeSession(takes((None, 1, 4, 4))), RunOptions(inputs=inputs, **options))


def holds_images(batch: Batch) -> bool:
    (only,) = (*batch.args, *batch.kwargs.values())
    assert isinstance(only, np.ndarray)
    return only.shape[1:] == (1, 4, 4) and all(row.tobytes() in ROWS for row in only)


def _generator() -> Iterator[torch.Tensor]:
    for start in range(0, 60, 7):
        yield torch.from_numpy(X[start : start + 7])


class _Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[tuple[np.ndarray[Any, Any], int]]:
        return iter(zip(X, Y.tolist(), strict=True))


PAIRS = TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
Named = namedtuple("Named", ["x", "y"])


@pytest.mark.parametrize(
    "inputs",
    [
        X,
        torch.from_numpy(X),
        torch.from_numpy(X).requires_grad_(),
        (X, Y),
        Named(X, Y),
        ((X,), Y),
        {"x": X, "y": Y},
        {"x": X},
        [X[:9], X[9:40]],
        [(X[:30], Y[:30]), (X[30:], Y[30:])],
        [[X[:30], Y[:30]], [X[30:], Y[30:]]],
        [{"x": X[:30], "labels": Y[:30]}, {"x": X[30:], "labels": Y[30:]}],
        _generator(),
        _generator,
        lambda: (X, Y),
        iter([X]),
        PAIRS,
        lambda: PAIRS,
        DataLoader(PAIRS, batch_size=4, shuffle=True),
        DataLoader(_Stream(), batch_size=4),
        DataLoader(PAIRS, batch_size=None),
        X.tolist(),
    ],
    ids=lambda inputs: type(inputs).__name__,
)
def test_every_kind_of_inputs_gives_the_users_samples(inputs: object) -> None:
    if isinstance(inputs, list) and isinstance(inputs[0], list) and isinstance(inputs[0][0], list):
        inputs = np.asarray(inputs, dtype=np.float32)
    if isinstance(inputs, DataLoader) and inputs.batch_size is None:
        inputs = DataLoader([X[:30], X[30:]], batch_size=None)  # type: ignore[arg-type]
    feed = feed_of(inputs)
    assert all(holds_images(batch) for batch in (feed.base, feed.swapped, feed.alone))
    assert (feed.base.size, feed.samples, feed.synthetic) == (16, 27, False)


def _npz(path: Path, **arrays: np.ndarray[Any, Any]) -> Path:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


def test_every_kind_of_file_gives_its_samples(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X)
    _npz(tmp_path / "a.npz", images=X, labels=Y)
    torch.save(torch.from_numpy(X), tmp_path / "a.pt")
    torch.save((torch.from_numpy(X), torch.from_numpy(Y)), tmp_path / "b.pt")
    torch.save({"x": torch.from_numpy(X)}, tmp_path / "c.pt")
    save_file({"anything": X}, tmp_path / "a.safetensors")
    for name in ("a.npy", "a.npz", "a.pt", "b.pt", "c.pt", "a.safetensors"):
        for path in (tmp_path / name, str(tmp_path / name)):
            feed = feed_of(path)
            assert holds_images(feed.base), name
            assert feed.source == f"{name}, 27 of 60 samples"


def test_bfloat16_is_widened_exactly(tmp_path: Path) -> None:
    halved = torch.from_numpy(X).bfloat16()
    save_tensors({"x": halved}, tmp_path / "a.safetensors")
    torch.save(halved, tmp_path / "a.pt")
    known = {row.tobytes() for row in halved.float().numpy()}
    for path in (tmp_path / "a.safetensors", tmp_path / "a.pt"):
        batch = feed_of(path).base
        (rows,) = (*batch.args, *batch.kwargs.values())
        assert isinstance(rows, np.ndarray)
        assert {row.tobytes() for row in rows} <= known


def test_bfloat16_is_widened_also_where_numpy_was_taught_it(tmp_path: Path) -> None:
    """ml_dtypes does so, which onnx and jax import; safetensors then gives such arrays."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = torch.randn(20, 3).bfloat16()
    save_tensors({"x": values}, tmp_path / "x.safetensors")
    for inputs in (tmp_path / "x.safetensors", values.float().numpy().astype(ml_dtypes.bfloat16)):
        base = feed_of(inputs, FakeSession(takes((None, 3)))).base
        (fed,) = [*base.args, *base.kwargs.values()]
        assert isinstance(fed, np.ndarray)
        assert fed.dtype == np.float32
        assert {row.tobytes() for row in fed} <= {row.tobytes() for row in values.float().numpy()}


def test_a_callable_in_a_file_yields_batches(tmp_path: Path) -> None:
    (tmp_path / "feeding.py").write_text(
        "import numpy as np\n\ndef batches():\n    for i in range(9):\n"
        "        yield np.random.rand(4, 1, 4, 4).astype('f'), np.arange(4)\n\nready = [np.ones((5, 1, 4, 4), 'f')]\n"
    )
    first, again = (feed_of(f"{tmp_path / 'feeding.py'}:batches") for _ in range(2))
    assert first.samples == 27
    assert np.array_equal(first.base.args[0], again.base.args[0]), "the user's generators are seeded"  # type: ignore[arg-type]
    assert feed_of(f"{tmp_path / 'feeding.py'}:ready").synthetic, "five equal samples are one"


def test_targets_are_left_out_and_that_is_said() -> None:
    assert any("left out as targets" in remark for remark in feed_of((X, Y)).remarks)
    assert any("labels left out" in remark for remark in feed_of({"x": X, "labels": Y}).remarks)


def test_two_inputs_are_two_inputs() -> None:
    session = FakeSession(takes((None, 1, 4, 4), (None,)))
    assert [np.shape(array) for array in feed_of((X, Y), session).base.args] == [(16, 1, 4, 4), (16,)]
    assert len(feed_of((X, Y, Y), session).base.args) == 2


def test_arrays_of_a_file_that_are_named_as_inputs_win(tmp_path: Path) -> None:
    path = _npz(tmp_path / "a.npz", other=X * 2, z=X, y=Y.astype("f"))
    graph = FakeSession(takes((None,), (None, 1, 4, 4), names="yz"), carrier=Carrier.GRAPH)
    feed = feed_of(path, graph)
    assert [np.shape(array) for array in feed.base.args] == [(16,), (16, 1, 4, 4)]
    assert not feed.base.kwargs
    assert any("other left out" in remark for remark in feed.remarks)


def test_the_one_array_that_fits_is_taken(tmp_path: Path) -> None:
    path = _npz(tmp_path / "a.npz", a=np.ones((60, 3)), b=X, c=np.ones((60, 2, 4, 4)))
    assert holds_images(feed_of(path).base)


def test_names_that_tell_nothing_are_listed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"which of a, b .* not clear \(a\.npz\): name arrays as .* inputs: x"):
        feed_of(_npz(tmp_path / "a.npz", a=X, b=X))
    two = FakeSession(takes((None, 1, 4, 4), (None, 1, 4, 4)), carrier=Carrier.GRAPH)
    with pytest.raises(UsageError, match="name the arrays x, y"):
        feed_of(_npz(tmp_path / "b.npz", a=X, b=X), two)
    with pytest.raises(UsageError, match="the graph also takes y"):
        feed_of(_npz(tmp_path / "c.npz", x=X), two)


def test_a_loaders_dict_is_given_in_the_way_that_the_model_takes_it() -> None:
    batches = [{"image": X[:30], "label": Y[:30]}, {"image": X[30:], "label": Y[30:]}]
    as_dict = FakeSession(
        takes((None, 1, 4, 4), names=["batch"]),  # type: ignore[arg-type]
        accepts=lambda batch: bool(batch.args) and isinstance(batch.args[0], dict),
    )
    (given,) = feed_of(batches, as_dict).base.args
    assert isinstance(given, dict) and given["image"].shape == (16, 1, 4, 4)
    as_array = FakeSession(accepts=lambda batch: bool(batch.args) and isinstance(batch.args[0], np.ndarray))
    assert holds_images(feed_of(batches, as_array).base)
    as_keyword = FakeSession(accepts=lambda batch: set(batch.kwargs) == {"image"})
    assert holds_images(feed_of(batches, as_keyword).base)


def test_optional_parameters_of_a_module_are_given_by_name() -> None:
    batches = [{"x": X[:40], "attention_mask": np.ones((40, 4), bool), "labels": Y[:40]}]
    assert set(feed_of(batches).base.kwargs) == {"x", "attention_mask"}


def test_batches_of_several_lengths_use_those_of_one() -> None:
    batches = [np.random.rand(8, length, 3).astype("f") for length in (5, 9, 5, 5, 7, 5, 5)]
    feed = feed_of(batches, FakeSession(takes((None, "length", 3))))
    assert np.shape(feed.base.args[0]) == (16, 5, 3)
    assert any("3 shapes" in remark for remark in feed.remarks)
    assert feed.lengthened() is None


class _Sentences(Dataset[Any]):
    def __init__(self, lengths: list[int]) -> None:
        self.lengths = lengths

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        generator = torch.Generator().manual_seed(index)
        return torch.rand(self.lengths[index], 3, generator=generator), index % 2


def _padded(samples: list[tuple[torch.Tensor, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    sentences, labels = zip(*samples, strict=True)
    return torch.nn.utils.rnn.pad_sequence(list(sentences), batch_first=True), torch.tensor(labels)


def test_a_collate_function_lengthens_the_batch_and_leaves_the_anchors() -> None:
    loader = DataLoader(_Sentences([4 + i % 9 for i in range(80)]), batch_size=4, collate_fn=_padded)
    feed = feed_of(loader, FakeSession(takes((None, "length", 3))))
    made = feed.lengthened()
    assert made is not None
    batch, axis, (before, after) = made
    base, longer = feed.base.args[0], batch.args[0]
    assert isinstance(base, np.ndarray) and isinstance(longer, np.ndarray)
    assert (axis, base.shape[1], longer.shape[1]) == (1, before, after)
    assert after > before
    anchors = list(feed.base.anchors)
    assert batch.anchors == feed.base.anchors
    assert np.array_equal(longer[anchors, :before], base[anchors])
    assert not longer[anchors, before:].any()


def test_nothing_is_lengthened_without_another_length_or_a_collate_function() -> None:
    session = FakeSession(takes((None, "length", 3)))
    same = DataLoader(_Sentences([6] * 50), batch_size=4, collate_fn=_padded)
    assert feed_of(same, session).lengthened() is None
    assert feed_of(DataLoader(_Sentences([6] * 50), batch_size=4), session).lengthened() is None


@pytest.mark.parametrize(
    ("name", "content", "kind", "message"),
    [
        ("a.npy", None, UsageError, "no such file"),
        ("a.csv", b"1,2", UsageError, "a .csv cannot be read as inputs"),
        ("a.npy", b"", UnreadableError, "is empty"),
        ("a.npy", b"garbage garbage", UnreadableError, "cannot be read"),
        ("a.npz", b"PK garbage", UnreadableError, "cannot be read"),
        ("a.pt", b"garbage", UnreadableError, "cannot be read"),
        ("a.safetensors", b"garbage garbage garbage", UnreadableError, "cannot be read"),
    ],
)
def test_unusable_files_are_one_sentence(
    tmp_path: Path, name: str, content: bytes | None, kind: type[Exception], message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(kind, match=message) as caught:
        feed_of(tmp_path / name)
    assert "\n" not in str(caught.value)


class _Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return exit, ()


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([_Evil()], dtype=object), allow_pickle=True)
    torch.save({"x": _Evil()}, tmp_path / "a.pt")
    for name in ("a.npy", "a.pt"):
        with pytest.raises(UnreadableError, match="would have to be unpickled") as caught:
            feed_of(tmp_path / name)
        assert len(str(caught.value)) < 200, "not what the framework advises: to load it unsafely"


@pytest.mark.parametrize(
    ("inputs", "kind", "message"),
    [
        (X[:0], UnreadableError, "hold no sample"),
        ([], UnreadableError, "hold no batch"),
        (iter([]), UnreadableError, "hold no batch"),
        (TensorDataset(torch.zeros(0, 3)), UnreadableError, "holds no sample"),
        (7, UsageError, "cannot be a int"),
        (np.array(["a", "b"]), UnreadableError, "cannot be fed to a model"),
        ({"x": "text"}, UnreadableError, "no array of samples"),
        (lambda: 1 // 0, UnreadableError, r"calling <lambda> raised ZeroDivisionError.*\(test_sources\.py:\d+\)"),
        ((1 // (3 - n) for n in range(5)), UnreadableError, "no array of samples"),
        (torch.eye(3).to_sparse(), UnreadableError, "cannot be read as an array"),
        (
            lambda samples: samples,
            UsageError,
            "cannot be called: .*missing 1 required.*: give a callable that needs no",
        ),
    ],
)
def test_inputs_that_are_none_are_one_sentence(inputs: object, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        feed_of(inputs)
    assert "\n" not in str(caught.value)


def test_what_a_loader_raises_half_way_is_told_with_its_line() -> None:
    def batches() -> Iterator[np.ndarray[Any, Any]]:
        yield X[:4]
        raise OSError("the disk is gone")

    with pytest.raises(UnreadableError, match=r"OSError: the disk is gone \(test_sources\.py:\d+\)"):
        feed_of(batches)


def test_torchs_generator_is_as_before() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    feed_of(DataLoader(PAIRS, batch_size=4, shuffle=True))
    feed_of(lambda: torch.rand(40, 1, 4, 4))
    assert torch.equal(torch.get_rng_state(), before)
