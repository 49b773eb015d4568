"""Following TorchScript code: which operators are reached in either mode, and what is known of their arguments."""

from __future__ import annotations

import textwrap
import time
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.torchscript.code import CodeLibrary
from bnaudit.reading.torchscript.objects import ScriptObject
from bnaudit.reading.torchscript.sites import Reached, Site
from bnaudit.reading.zip_directory import ZipDirectory

NODES = 500_000
HEAD = """\
class M(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
"""


class Followed:
    """The sites of a class M whose methods are given."""

    def __init__(self, library: CodeLibrary, root: ScriptObject, nodes: int) -> None:
        self.library = library
        self.root = root
        self.reached = Reached(library, [root], [], nodes)
        self.sites = self.reached.sites

    @property
    def only(self) -> Site:
        (site,) = self.sites
        return site


class Follow:
    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack

    def __call__(self, methods: str, functions: str = "", nodes: int = NODES, **attributes: object) -> Followed:
        code = HEAD + textwrap.indent(textwrap.dedent(methods), "  ") + textwrap.dedent(functions)
        path = self._folder / "code.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("m/code/__torch__.py", code)
        source = self._stack.enter_context(ByteSource.open(path))
        root = ScriptObject("", "__torch__.M")
        root.attributes = {"training": True, **attributes}
        return Followed(CodeLibrary(ZipDirectory(source), "m/", source.caps), root, nodes)


@pytest.fixture
def follow(tmp_path: Path) -> Iterator[Follow]:
    with ExitStack() as stack:
        yield Follow(tmp_path, stack)


def flag_of(follow: Follow, body: str, argument: str = "flag", **attributes: object) -> bool | None:
    """What the flag of one dropout is fixed to."""
    steps = textwrap.indent(body, "  ")
    method = f"def forward(self, x: Tensor) -> Tensor:\n{steps}\n  return torch.dropout(x, 0.5, {argument})\n"
    return follow(method, **attributes).only.fixed_flag("training")


@pytest.mark.parametrize(
    ("body", "fixed"),
    [
        ("flag = True", True),
        ("flag = False", False),
        ("flag = self.training", None),
        ("flag = torch.__not__(self.training)", True),
        ("_0 = self.training\nif _0:\n  flag = True\nelse:\n  flag = False", None),
        ("_0 = self.training\nif _0:\n  flag = True\nelse:\n  flag = True", True),
        ("if bool(x):\n  flag = True\nelse:\n  flag = True", True),
        ("if bool(x):\n  flag = True\nelse:\n  flag = False", None),
        ("flag = True\nif bool(x):\n  flag = False\nelse:\n  pass", None),
        ("flag = self.on", True),
        ("flag = self.off", False),
        ("flag = self.missing", None),
        ("flag = torch.__isnot__(self.nothing, None)", False),
        ("flag = torch.__is__(self.nothing, None)", True),
        ("flag = torch.__and__(self.on, self.training)", None),
        ("flag = torch.__or__(self.on, bool(x))", True),
        ("flag = torch.gt(self.rate, 0.)", True),
        ("flag = torch.eq(self.mode, 'eval')", False),
        ("flag = bool(1)", True),
        ("flag = annotate(bool, True)", True),
        ("flag = unchecked_cast(bool, self.training)", None),
        ("_0, flag, = 1, True", True),
        ("_0 = (1, True)\nflag = _0[1]", True),
        ("_0 = [True, False]\nflag = _0[-1]", False),
        ("flag = True if self.training else False", None),
        ("flag = not self.training", True),
        ("flag = False\nfor i in range(3):\n  flag = True", None),
        ("flag = False\n_0 = True\nwhile _0:\n  flag = True\n  _0 = bool(x)", None),
        ("for i in range(3):\n  flag = True", True),
        ("flag : bool = True", True),
        ('flag = getattr(self, "on")', True),
        ("with torch.no_grad():\n  flag = True", True),
        ("flag = (self).decide()", None),
        ("flag = x.training", None),
    ],
)
def test_a_flag_is_fixed_only_where_no_training_attribute_changes_it(
    follow: Follow, body: str, fixed: bool | None
) -> None:
    attributes = {"on": True, "off": False, "nothing": None, "rate": 0.5, "mode": "train"}
    assert flag_of(follow, body, **attributes) is fixed


def test_a_literal_behind_a_condition_that_eval_mode_makes_false_obeys(follow: Follow) -> None:
    """As in torch.nn.functional.multi_head_attention_forward."""
    found = follow(
        """
        def forward(self, x: Tensor) -> Tensor:
          if torch.__not__(self.training):
            p = 0.
          else:
            p = 0.1
          if torch.gt(p, 0.):
            y = torch.dropout(x, p, True)
          else:
            y = x
          return y
        """
    )
    assert found.only.in_eval is None
    assert found.only.fixed_flag("training") is None
    assert found.only.number("p") == 0.1


def test_an_attribute_that_some_method_assigns_is_unknown(follow: Follow) -> None:
    found = follow(
        """
        def forward(self, x: Tensor) -> Tensor:
          return torch.dropout(x, 0.5, self.on)
        def switch(self) -> NoneType:
          self.on = False
          return None
        """,
        on=True,
    )
    assert found.only.fixed_flag("training") is None


def test_arguments_pass_through_functions_by_position_name_and_default(follow: Follow) -> None:
    found = follow(
        """
        def forward(self, x: Tensor) -> Tensor:
          f = __torch__.drop
          a = f(x, 0.25, )
          b = f(a, training=False, p=0.75)
          return __torch__.drop(b)
        """,
        """
        def drop(x: Tensor,
            p: float=0.5,
            training: bool=True) -> Tensor:
          return torch.dropout(x, p, training)
        """,
    )
    assert [site.number("p") for site in found.sites] == [0.25, 0.75, 0.5]
    assert [site.fixed_flag("training") for site in found.sites] == [True, False, True]


def test_returned_values_are_known(follow: Follow) -> None:
    found = follow(
        """
        def forward(self, x: Tensor) -> Tensor:
          p, flag, = (self).settings()
          return torch.dropout(x, p, flag)
        def settings(self) -> Tuple[float, bool]:
          return (0.5, True)
        """
    )
    assert (found.only.number("p"), found.only.fixed_flag("training")) == (0.5, True)


def test_forked_code_is_followed_with_the_variables_around_it(follow: Follow) -> None:
    found = follow(
        """
        def forward(self, x: Tensor) -> Tensor:
          p = 0.5
          def __forked_function():
            return torch.dropout(x, p, True)
          f = fork(__forked_function)
          return torch.wait(f)
        """
    )
    assert found.only.number("p") == 0.5


def test_exported_methods_of_the_root_are_followed(follow: Follow) -> None:
    found = follow(
        """
        def forward(self, x: Tensor) -> Tensor:
          return x
        def other(self, x: Tensor) -> Tensor:
          return torch.dropout(x, 0.5, True)
        """
    )
    assert found.only.call.method == "other"


def test_calls_keep_the_order_of_the_code_in_both_modes(follow: Follow) -> None:
    found = follow(
        """
        def forward(self, x: Tensor) -> Tensor:
          a = torch.dropout(x, 0.1, True)
          if self.training:
            b = torch.dropout(a, 0.2, True)
          else:
            b = torch.dropout(a, 0.3, True)
          return torch.dropout(b, 0.4, True)
        """
    )
    assert [site.number("p") for site in found.sites] == [0.1, 0.2, 0.3, 0.4]


def test_deeply_nested_calls_are_all_followed(follow: Follow) -> None:
    functions = "".join(f"def f{n}(x: Tensor) -> Tensor:\n  return __torch__.f{n + 1}(x)\n" for n in range(90))
    functions += "def f90(x: Tensor) -> Tensor:\n  return torch.dropout(x, 0.5, True)\n"
    found = follow("def forward(self, x: Tensor) -> Tensor:\n  return __torch__.f0(x)\n", functions)
    assert found.only.fixed_flag("training") is True
    assert found.library.gaps == []


HOSTILE = {
    "calls itself": "def forward(self, x: Tensor) -> Tensor:\n  return (self).forward(x)\n",
    "calls itself twice": "def forward(self, x: Tensor) -> Tensor:\n  return (self).forward((self).forward(x))\n",
    "doubles at every level": "".join(
        f"def g{n}(self, x: Tensor) -> Tensor:\n  return (self).g{n + 1}((self).g{n + 1}(x))\n" for n in range(60)
    )
    + "def forward(self, x: Tensor) -> Tensor:\n  return (self).g0(x)\n",
    "nests an expression": f"def forward(self, x: Tensor) -> Tensor:\n  return {'f(' * 80}x{')' * 80}\n",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_code_that_never_ends_becomes_a_gap(follow: Follow, kind: str) -> None:
    started = time.process_time()
    found = follow(HOSTILE[kind])
    assert found.library.gaps
    assert all(gap.hides_norms for gap in found.library.gaps)
    assert time.process_time() - started < 10


def test_lists_that_double_are_joined_in_bounded_time(follow: Follow) -> None:
    doubling = "".join("  a = [a, a]\n  b = [b, b]\n" for _ in range(200))
    code = f"def forward(self, x: Tensor) -> Tensor:\n  a = x\n  b = 1\n{doubling}"
    code += "  if bool(x):\n    c = a\n  else:\n    c = b\n  return torch.dropout(c, 0.5, True)\n"
    started = time.process_time()
    assert follow(code).only.fixed_flag("training") is True
    assert time.process_time() - started < 2


def test_missing_code_is_a_gap(follow: Follow) -> None:
    found = follow("def forward(self, x: Tensor) -> Tensor:\n  return __torch__.other.f(x)\n")
    assert [(gap.where, gap.hides_norms) for gap in found.library.gaps] == [("__torch__.other.f", True)]


def test_a_broken_function_hides_only_itself(follow: Follow) -> None:
    found = follow(
        "def forward(self, x: Tensor) -> Tensor:\n  return torch.dropout(__torch__.f(x), 0.5, True)\n",
        "def f(x: Tensor) -> Tensor:\n  return ((x\n",
    )
    assert found.only.fixed_flag("training") is True
    assert [gap.where for gap in found.library.gaps] == ["__torch__.f"]
