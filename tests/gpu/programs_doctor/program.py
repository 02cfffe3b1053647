"""A program that captures a step of steps.py by itself: ``python program.py NAME [HOW]``.

HOW: ``context`` captures with torch.cuda.graph (the default); ``raw`` with capture_begin, after
making another stream current; ``never`` runs the step eagerly in a training loop.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import steps
import torch


def main() -> None:
    name, how = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "context"
    step = getattr(steps, name)()
    if how == "never":
        for _ in range(10):
            step()
        print("ran")
        return
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    if how == "raw":
        with torch.cuda.stream(side):
            graph.capture_begin()
            step()
            graph.capture_end()
    else:
        with torch.cuda.graph(graph):
            step()
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    print("replayed")


main()
