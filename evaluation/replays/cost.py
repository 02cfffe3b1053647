"""Cost of the watch of memory per replay: ``python -m evaluation.replays.cost``.

Needs a GPU. Watched and plain replays of one graph alternate in blocks in one process. Differences
of their medians are the cost; the GPU is never the bottleneck.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click
import torch

from collectors.replays.notes import MarksSettings, NoteFolder
from collectors.replays.program import MarkedProgram

_BLOCKS: Final = 400
_REPLAYS: Final = 64


@click.command()
@click.option("--out", "path", type=click.Path(path_type=Path), required=True)
@click.option("--strict", is_flag=True, help="Check memory before each replay.")
@click.option("--tensors", default=200, help="Tensors from outside that the graph reads.")
def measure_cost(path: Path, strict: bool, tensors: int) -> None:
    """Measure the CPU time of a replay with and without the watch."""
    plain_replay: Callable[[object], None] = torch.cuda.CUDAGraph.replay
    folder = Path(tempfile.mkdtemp())
    settings = MarksSettings(str(folder), strict=strict, marks=False)
    MarkedProgram(settings, NoteFolder(folder / "notes"), "cost").install()
    inputs = [torch.ones(1, device="cuda") for _ in range(tensors)]
    total = torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for tensor in inputs:
            total.add_(tensor)
    times: dict[str, list[float]] = {"plain": [], "watch": []}
    replays = {"plain": lambda: plain_replay(graph), "watch": graph.replay}
    for block in range(_BLOCKS):
        for name, replay in replays.items():
            torch.cuda.synchronize()
            began = time.perf_counter()
            for _ in range(_REPLAYS):
                replay()
            took = (time.perf_counter() - began) / _REPLAYS * 1e6
            if block >= _BLOCKS // 10:
                times[name].append(took)
    medians = {name: statistics.median(values) for name, values in times.items()}
    cost = medians["watch"] - medians["plain"]
    result = {"strict": strict, "tensors": tensors, "cost_us": cost, **medians}
    path.write_text(json.dumps(result))
    click.echo(
        f"{'strict' if strict else 'default'}, {tensors} tensors: {medians['plain']:.2f} us per "
        f"replay, {cost:+.2f} us watched"
    )


if __name__ == "__main__":
    measure_cost()
