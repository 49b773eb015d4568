"""The results as JSON and as the README's section."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.against.found import BREAKS, Verdict

SIGNS = {
    Verdict.FOUND.value: "**yes**",
    Verdict.NOT_FOUND.value: "no",
    Verdict.NOT_APPLICABLE.value: "–",
    Verdict.FAILED.value: "failed",
}
FORMS = {"state.pt": "state dict", "module.pt": "module", "onnx": "ONNX graph"}


def json_text(result: Mapping[str, Any]) -> str:
    """Stable text: rounded to what the clock is good for."""
    return json.dumps(_rounded(result), indent=1, ensure_ascii=False) + "\n"


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {name: _rounded(each) for name, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, (list, tuple)) else value


def markdown(result: Mapping[str, Any]) -> str:
    """The whole section."""
    parts = [
        _files(result["speed"]),
        _modules(result["speed"]),
        _found(result["found"]),
        _reading(result),
        _run(result),
    ]
    return "\n".join(part for part in parts if part)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] + ["--:"] * (len(head) - 1), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _files(lines: Sequence[Mapping[str, Any]]) -> str:
    """Rows: tools by format; columns: sizes, then memory and share read of the largest file."""
    lines = [line for line in lines if line["format"] != "module"]
    sizes = sorted({line["megabytes"] for line in lines})
    if not lines:
        return ""
    head = [
        "one file, whole process",
        *map(_size, sizes),
        f"memory at {_size(sizes[-1])}",
        f"read of {_size(sizes[-1])}",
    ]
    rows = []
    for form in dict.fromkeys(line["format"] for line in lines):
        for tool in dict.fromkeys(line["tool"] for line in lines if line["format"] == form):
            own = {line["megabytes"]: line for line in lines if (line["format"], line["tool"]) == (form, tool)}
            last = own.get(sizes[-1], {})
            cells = [_time(own[size]) if size in own else "" for size in sizes]
            rows.append([f"{form}: {tool}", *cells, _memory(last), _share(last)])
    return _table(head, rows)


def _size(megabytes: int) -> str:
    return f"{megabytes // 1000} GB" if megabytes >= 1000 else f"{megabytes} MB"


def _time(line: Mapping[str, Any]) -> str:
    """Median and ratio: `2.10 s (×13)`; in bold where it is faster than bnaudit."""
    if line["trouble"]:
        return str(line["trouble"]).partition(":")[0]
    text = _seconds(line["seconds"])
    text += " once" if line["runs"] == 1 else ""
    ratio = line["seconds_ratio"]
    if str(line["tool"]).startswith("bnaudit") or ratio is None:
        return text
    text = f"{text} ({_two_digits(ratio)})"
    return f"**{text}**" if ratio < 1 else text


def _seconds(seconds: float) -> str:
    if seconds < 0.01:
        return "below 0.01 s"
    return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.0f} s"


def _two_digits(ratio: float) -> str:
    if ratio < 0.01:
        return "below ×0.01"
    return f"×{ratio:.0f}" if ratio >= 9.5 else f"×{ratio:.2g}"


def _memory(line: Mapping[str, Any]) -> str:
    return "" if not line or line["mebibytes"] is None else f"{line['mebibytes']:,.0f} MiB"


def _share(line: Mapping[str, Any]) -> str:
    """Of the file, what came into the page cache; and what the tool says that it read, if it does."""
    if not line or line["trouble"]:
        return ""
    cached = line.get("in_page_cache")
    text = "not known" if cached is None else _percent(cached / line["size"])
    own = line.get("reported_bytes")
    return text if own is None else f"{text}, by its own count {_percent(own / line['size'])}"


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.995 else "100 %"


def _modules(lines: Sequence[Mapping[str, Any]]) -> str:
    lines = [line for line in lines if line["format"] == "module"]
    rows = [
        [line["tool"], _time(line), _memory(line), "" if line["trouble"] else str(line["forwards"])] for line in lines
    ]
    return (
        _table(["live ResNet-50, batch of 4, 224 px", "time of the call", "memory", "forwards"], rows) if rows else ""
    )


def _found(rows: Sequence[Mapping[str, Any]]) -> str:
    head = ["found", "given", *BREAKS, "false alarms"]
    body = [
        [
            row["tool"].partition(",")[0],
            ("pickled " if "pickled" in row["tool"] else "live " if row["form"] == "module.pt" else "")
            + FORMS[row["form"]],
            *(SIGNS[row["cells"][defect]["verdict"]] for defect in BREAKS),
            "failed" if row["healthy"]["verdict"] else str(len(row["healthy"]["problems"])),
        ]
        for row in rows
    ]
    return _table(head, body)


def _reading(result: Mapping[str, Any]) -> str:
    """What the figures say, against bnaudit first."""
    lines = [*_faster(result["speed"]), *_finds_more(result["found"])]
    lines += [f"{entry['tool']} could not be used here: {entry['why']}" for entry in result["not_usable"]]
    return "".join(f"- {line}.\n" for line in lines)


def _faster(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Who is faster, or takes less memory, than bnaudit, and where."""
    texts = []
    for unit, word in (("seconds_ratio", "Faster than bnaudit"), ("mebibytes_ratio", "In less memory than bnaudit")):
        beaten: dict[str, list[str]] = {}
        for line in lines:
            if line[unit] is not None and line[unit] < 1 and not str(line["tool"]).startswith("bnaudit"):
                where = "ResNet-50" if line["format"] == "module" else f"{line['format']} {_size(line['megabytes'])}"
                beaten.setdefault(line["tool"], []).append(where)
        texts.append(f"{word}: " + ("; ".join(f"{tool} ({', '.join(at)})" for tool, at in beaten.items()) or "nothing"))
    return texts


def _finds_more(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What another tool found that bnaudit did not, given the same form."""
    own: dict[str, set[str]] = {}
    for row in rows:
        if row["tool"].startswith("bnaudit"):
            own.setdefault(_given(row), set()).update(_names(row, Verdict.FOUND))
    more = []
    for row in rows:
        extra = sorted(_names(row, Verdict.FOUND) - own.get(_given(row), set()))
        if extra:
            more.append(f"{row['tool']} ({', '.join(extra)})")
    every = set().union(*own.values()) if own else set()
    missed = [defect for defect in BREAKS if defect not in every]
    return [
        "Found by another tool and not by bnaudit, given the same form: " + ("; ".join(more) or "nothing"),
        "bnaudit finds all eight in one form or another"
        if not missed
        else f"bnaudit does not find in any form: {', '.join(missed)}",
    ]


def _given(row: Mapping[str, Any]) -> str:
    return f"{'pickled ' if 'pickled' in row['tool'] else ''}{row['form']}"


def _names(row: Mapping[str, Any], verdict: Verdict) -> set[str]:
    return {defect for defect, cell in row["cells"].items() if cell["verdict"] == verdict.value}


def _run(result: Mapping[str, Any]) -> str:
    machine = result["machine"]
    packages = dict(result["versions"])
    for name, found in result["rivals"].items():
        packages[name] = found.get(name, "not known")
    parts = [
        f"{machine['date']}",
        machine["processor"] or "processor not known",
        f"{machine['cores']} cores",
        "memory not known" if machine["memory_gib"] is None else f"{machine['memory_gib']} GiB",
        machine["system"],
        f"Python {machine['python']}",
        f"medians of {result['rounds']} runs in turns",
    ]
    return f"\n{' · '.join(parts)}.\n{', '.join(f'{name} {found}' for name, found in packages.items())}.\n"


def sound(result: Mapping[str, Any]) -> bool:
    """bnaudit found every defect in some form, and reported nothing on the healthy net in any."""
    ours = [row for row in result["found"] if row["tool"].startswith("bnaudit")]
    found = set().union(*(_names(row, Verdict.FOUND) for row in ours)) if ours else set()
    return found == set(BREAKS) and not any(row["healthy"]["problems"] or row["healthy"]["verdict"] for row in ours)
