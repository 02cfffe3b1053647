"""Measure the cost of a replay with the recorder on and no traced window.

Needs a CUDA GPU. Blocks with and without the recorder alternate in one process, so that clocks and
other load affect both. Each figure is the median over the blocks of the median of each block::

    python benchmarks/recorder.py [--blocks 15] [--served]
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch

import collectors
from collectors.program.files import ProcessFolder, Settings
from collectors.program.process_watcher import ProcessWatcher
from collectors.program.recorder import KEPT

CALLS = 400
GOAL = 1.02


def line(nodes: int) -> torch.cuda.CUDAGraph:
    """Capture ``nodes`` tiny kernels in sequence."""
    data = torch.zeros(16, device="cuda")
    data.add_(1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(nodes):
            data.add_(1)
    graph.kept = data
    return graph


def mlp() -> torch.cuda.CUDAGraph:
    """Capture a training step of four 64-wide layers with Adam, about 40 nodes."""
    from collectors.workloads.mlp import train

    step = train()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(11):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    graph.kept = step
    return graph


def call_ns(graph: torch.cuda.CUDAGraph) -> float:
    """Time the call of replay() with an idle GPU."""
    timings = []
    for _ in range(CALLS):
        torch.cuda.synchronize()
        begin = time.perf_counter_ns()
        graph.replay()
        timings.append(time.perf_counter_ns() - begin)
    return statistics.median(timings)


def step_ns(graph: torch.cuda.CUDAGraph) -> float:
    """Time replay() and the wait for its work."""
    timings = []
    for _ in range(CALLS):
        torch.cuda.synchronize()
        begin = time.perf_counter_ns()
        graph.replay()
        torch.cuda.synchronize()
        timings.append(time.perf_counter_ns() - begin)
    return statistics.median(timings)


def loop_ns(graph: torch.cuda.CUDAGraph) -> float:
    """Time a replay in a loop that waits for the GPU at its end only."""
    torch.cuda.synchronize()
    begin = time.perf_counter_ns()
    for _ in range(CALLS):
        graph.replay()
    torch.cuda.synchronize()
    return (time.perf_counter_ns() - begin) / CALLS


def served_ns(graph: torch.cuda.CUDAGraph) -> float:
    """Time a labelled step of a server: replay() in a label, and the wait for it."""
    torch.cuda.synchronize()
    begin = time.perf_counter_ns()
    for call in range(CALLS):
        with collectors.label("decode", real=call % 64, batch=64):
            graph.replay()
        torch.cuda.synchronize()
    return (time.perf_counter_ns() - begin) / CALLS


@contextmanager
def recorder_on(graph: torch.cuda.CUDAGraph, build: Callable[[], object], settle: bool) -> Iterator:
    """Run the recorder with ``graph`` known to it: captured again inside, as in a program."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        watcher = ProcessWatcher(Settings(skip=0, window=0), ProcessFolder(Path(folder)))
        stack.enter_context(watcher.watch())
        captured_graph = build()
        if settle:
            for _ in range(KEPT + 10):
                captured_graph.replay()
            torch.cuda.synchronize()
        yield captured_graph


def compare(name: str, build: Callable[[], torch.cuda.CUDAGraph], blocks: int) -> None:
    figures = {"call": call_ns, "step": step_ns, "loop": loop_ns}
    baseline_ns: dict[str, list[float]] = {key: [] for key in figures}
    recorded_ns: dict[str, list[float]] = {key: [] for key in figures}
    ticking: list[float] = []
    plain = build()
    call_ns(plain)
    for _ in range(blocks):
        with recorder_on(plain, build, settle=True) as graph:
            for key, measure in figures.items():
                recorded_ns[key].append(measure(graph))
        with recorder_on(plain, build, settle=False) as graph:
            ticking.append(call_ns(graph))
        # Built as often and as late as the other graph, so that both have similar memory addresses.
        graph = build()
        for _ in range(KEPT + 10):
            graph.replay()
        torch.cuda.synchronize()
        for key, measure in figures.items():
            baseline_ns[key].append(measure(graph))
    for key in figures:
        told(name, key, baseline_ns[key], recorded_ns[key])
    a, b = statistics.median(baseline_ns["call"]), statistics.median(ticking)
    print(f"{name:12} call while steps are timed {b:.0f} ns, {b - a:+.0f} ns")


def compare_served(nodes: int, blocks: int) -> None:
    """Compare labelled steps. The recorder notes each of them and times one replay in 16 by
    events."""
    plain_step_ns, recorded_step_ns = [], []
    served_ns(line(nodes))
    for _ in range(blocks):
        with tempfile.TemporaryDirectory() as folder, collectors.record(Path(folder), steps=0):
            graph = line(nodes)
            for _ in range(KEPT // CALLS + 1):
                served_ns(graph)
            recorded_step_ns.append(served_ns(graph))
        graph = line(nodes)
        for _ in range(KEPT // CALLS + 1):
            served_ns(graph)
        plain_step_ns.append(served_ns(graph))
    told(f"line {nodes}", "label", plain_step_ns, recorded_step_ns)


def told(name: str, figure: str, without: list[float], recorded: list[float]) -> None:
    a, b = statistics.median(without), statistics.median(recorded)
    print(
        f"{name:12} {figure:5} without {a:10.0f} ns ({min(without):.0f} to {max(without):.0f})  "
        f"with {b:10.0f} ns  {(b / a - 1) * 100:+6.2f}%  {'ok' if b / a <= GOAL else 'OVER'}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=15)
    parser.add_argument("--served", action="store_true", help="Only the labelled steps.")
    options = parser.parse_args()
    blocks = options.blocks
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    gc.disable()
    for nodes in (100, 1000):
        compare_served(nodes, blocks)
    for nodes in () if options.served else (1, 10, 100, 1000):
        compare(f"line {nodes}", lambda nodes=nodes: line(nodes), blocks)
    if not options.served:
        compare("mlp-train", mlp, blocks)


if __name__ == "__main__":
    main()
