"""Gives a live module to one tool and counts.

    python module.py TOOL MODULE.pt INPUTS.pt

TOOL is a file beside this one with `check(net, inputs, labels) -> problems`, or `nothing`. Prints {"problems": [...],
"seconds": of the call alone, "forwards": calls of the whole module, copies included}. INPUTS holds inputs, labels and
the size of a batch; tools other than bnaudit get the first batch.
"""

from __future__ import annotations

import importlib
import json
import sys
import time

import torch


def main(tool: str, module: str, inputs: str) -> None:
    check = importlib.import_module(tool).check
    net = torch.load(module, weights_only=False)
    data = torch.load(inputs, weights_only=True)
    calls = []
    warm = getattr(net, "warm", False)
    net.register_forward_pre_hook(lambda *_: calls.append(1))
    if warm:
        with torch.no_grad():
            net(data["inputs"][: data["batch"]])
    calls.clear()
    begin = time.perf_counter()
    problems = check(net, data["inputs"], data["labels"], int(data["batch"]))
    seconds = time.perf_counter() - begin
    print("\n" + json.dumps({"problems": problems, "seconds": seconds, "forwards": len(calls)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
