"""Names for the layers of a graph: the module's where its parameters carry it, else the node's, else the output's."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bnaudit.layer_names import module_of_node
from bnaudit.reading.onnx.scope import Site

_SUFFIX = re.compile(
    r"(?P<module>.+?)[./_:](?:weight|gamma|scale|bias|beta|offset|shift"
    r"|(?:running_|moving_|input_)?(?:mean|var|variance))(?::0)?"
)
_SEPARATORS = "./_:"
_QUOTED = re.compile(r"'([^']*)'")
_NUMBERED = re.compile(r"onnx::.*|\d+|.*_output_\d+")
"""Names that exporters make up for values without one."""


class LayerNames:
    """Gives every layer of one graph a name of its own."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}

    def name(self, site: Site, parameters: Sequence[str] = ()) -> str:
        """A name for what a site computes with parameters of these names.

        Exporters store equal parameters once: a name that is taken yields to the module that the exporter notes.
        """
        module = module_name(parameters)
        if not module or f"{site.scope.branch}{module}" in self._taken:
            module = noted_module(site) or module
        if module:
            return self.unique(f"{site.scope.branch}{module}")
        outputs = [name for name in site.node.outputs if name]
        return self.unique(f"{site.scope.where}{site.node.name or (outputs[0] if outputs else site.label)}")

    def unique(self, name: str) -> str:
        """The name itself the first time, `name#2` for the second layer with it."""
        candidate = name
        while candidate in self._taken:
            self._taken[name] += 1
            candidate = f"{name}#{self._taken[name]}"
        self._taken[candidate] = 1
        return candidate


def module_name(parameters: Sequence[str]) -> str:
    """`layer1.0.bn1` for `layer1.0.bn1.weight` and its like; "" when the names carry no such thing."""
    names = [name for name in parameters if not _NUMBERED.fullmatch(name)]
    modules = [match["module"] for name in names if (match := _SUFFIX.fullmatch(name))]
    if modules:
        return max(modules, key=lambda module: (modules.count(module), -modules.index(module)))
    return _common_stem(names)


def noted_module(site: Site) -> str:
    """The module that PyTorch's exporters note beside a node, "" where they do not.

    The dynamo exporter keeps `name_scopes` in the metadata, the last entry being the node's own; the TorchScript
    exporter writes the module into the node's name.
    """
    scopes = _QUOTED.findall(site.node.metadata("pkg.torch.onnx.name_scopes"))
    if len(scopes) > 1:
        return str(scopes[-2])
    return module_of_node(site.node.name)


def _common_stem(names: Sequence[str]) -> str:
    """What several names share up to a separator, when what follows differs by words and not only by numbers."""
    if len(set(names)) < 2:
        return ""
    shortest, longest = min(names), max(names)
    same = next(
        (at for at, pair in enumerate(zip(shortest, longest, strict=False)) if pair[0] != pair[1]), len(shortest)
    )
    stem = shortest[:same]
    cut = max((stem.rfind(separator) for separator in _SEPARATORS), default=-1)
    rests = [name[cut + 1 :] for name in names]
    if cut < 1 or not all(re.search(r"[A-Za-z]", rest) for rest in rests):
        return ""
    return stem[:cut].rstrip(_SEPARATORS)
