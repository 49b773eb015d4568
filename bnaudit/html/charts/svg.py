"""A matplotlib figure as inline SVG that the page colours, small, with a tooltip for every mark.

matplotlib draws with sentinel colours, and names stand in it as placeholders: a layer's name never meets matplotlib's
own markup (`$…$`), fonts or warnings, and is put in here, where it is escaped.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree import ElementTree

from bnaudit.printable import printable

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure

COLORS = {
    "ink": "#010101",
    "muted": "#020202",
    "rule": "#030303",
    "accent": "#040404",
    "failed": "#050505",
    "open": "#060606",
    "surface": "#070707",
}
"""Variable of the style sheet → the colour that stands for it in a figure."""
_VARIABLES = {color: f"var(--{name})" for name, color in COLORS.items()}
_NUMBER = re.compile(r"-?\d+\.\d+")
_XLINK = "{http://www.w3.org/1999/xlink}href"
_REFERENCE = re.compile(r"url\(#([^)]+)\)|^#(.+)$")
_KEPT = ("fill", "stroke", "stroke-width", "stroke-dasharray", "text-anchor", "stroke-opacity", "fill-opacity")
_FONT = 11


class Drawn(NamedTuple):
    """A figure and what its placeholders stand for."""

    figure: Figure
    names: Sequence[str] = ()
    """A text `@3@` in the figure is the fourth of these."""
    titles: Mapping[str, Sequence[str]] = MappingProxyType({})
    """Group id of a line of marks → a tooltip for each of its marks."""


@contextmanager
def style(key: str) -> Iterator[None]:
    """matplotlib's defaults, whatever the user has set; text stays text, and ids depend on `key` alone."""
    import matplotlib

    chosen: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": key,
        "path.simplify": False,
        "font.family": ["DejaVu Sans"],
        "font.size": _FONT,
        "text.parse_math": False,
        "axes.unicode_minus": False,
    }
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(chosen)
        yield


def inline(drawn: Drawn, key: str, label: str) -> Markup:
    """The figure as an `svg` element with role `img`; `key` makes its ids unique in the page."""
    from markupsafe import Markup

    buffer = io.StringIO()
    drawn.figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    root = ElementTree.fromstring(buffer.getvalue())
    kept = _referenced(root)
    _clean(root, drawn, {id: f"{key}-{position}" for position, id in enumerate(kept)})
    _, _, width, height = root.attrib["viewBox"].split()
    attributes = {"viewBox": f"0 0 {width} {height}", "role": "img", "aria-label": printable(label)}
    root.attrib.clear()
    root.attrib.update(attributes)
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _referenced(root: ElementTree.Element) -> list[str]:
    found: dict[str, None] = {}
    for element in root.iter():
        for value in element.attrib.values():
            if match := _REFERENCE.search(value):
                found[match[1] or match[2]] = None
    return list(found)


def _clean(element: ElementTree.Element, drawn: Drawn, ids: Mapping[str, str]) -> None:
    """Strip what the page does not need and put in what matplotlib did not see."""
    element.tag = element.tag.rpartition("}")[2]
    for child in list(element):
        if child.tag.rpartition("}")[2] in ("metadata", "style"):
            element.remove(child)
    titles = drawn.titles.get(element.attrib.get("id", ""))
    for child in list(element):
        _clean(child, drawn, ids)
        if child.tag in ("g", "defs") and not len(child):
            element.remove(child)
    _attributes(element, ids)
    if titles is not None:
        _entitle(element, titles)
    element.tail = None
    text = (element.text or "").strip()
    match = re.fullmatch(r"@(\d+)@", text)
    element.text = printable(drawn.names[int(match[1])]) if match else text or None
    _merge_alike(element)


def _attributes(element: ElementTree.Element, ids: Mapping[str, str]) -> None:
    given = dict(element.attrib)
    element.attrib.clear()
    if (id := given.pop("id", "")) in ids:
        element.set("id", ids[id])
    reference = given.pop(_XLINK, "")
    if reference:
        element.set("href", f"#{ids[reference[1:]]}")
    given.pop("clip-path", None)  # nothing is drawn outside the axes
    style = _style(given.pop("style", ""))
    if style:
        element.set("style", style)
    for name, value in given.items():
        rounded = _NUMBER.sub(lambda match: f"{float(match[0]):.1f}".removesuffix(".0"), value)
        rounded = " ".join(rounded.split())
        if not re.fullmatch(r"rotate\(-?0 .*\)", rounded):
            element.set(name, rounded)


def _style(style: str) -> str:
    pairs = (entry.partition(":") for entry in style.split(";"))
    kept = ((name.strip(), value.strip()) for name, _, value in pairs if name.strip() in _KEPT)
    return ";".join(f"{name}:{_VARIABLES.get(value, value)}" for name, value in kept)


def _merge_alike(group: ElementTree.Element) -> None:
    """A style that all marks of a group share stands once, on the group."""
    marks = [child for child in group if child.tag == "use"]
    styles = {mark.attrib.get("style", "") for mark in marks}
    if group.tag == "g" and len(marks) == len(group) > 1 and len(styles) == 1 and "" not in styles:
        group.set("style", styles.pop())
        for mark in marks:
            del mark.attrib["style"]


def _entitle(group: ElementTree.Element, titles: Sequence[str]) -> None:
    for mark, text in zip((each for each in group.iter("use")), titles, strict=True):
        ElementTree.SubElement(mark, "title").text = printable(text)
