"""What the recorder's own work takes of a replay, with ``collectors.label`` around it and without.

    python -m benchmarks.label_cost [--repeats 15]

Needs neither a GPU nor torch: it replays the tests' fake torch. Prints the lowest CPU time of the
repeats, without the events around one replay in 16, which need a GPU (``python
benchmarks/recorder.py``).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]

STEPS: Final = 20_000
GOAL_NS: Final = 2_100
"""2% of a step of 105 µs."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    sys.path.insert(0, str(ROOT / "tests" / "collectors" / "fake_torch"))
    import collectors
    from collectors.program import watch

    vars(watch)["_FIRST_TIMED"] = sys.maxsize
    baseline_ns = {name: least(loop, captured(), repeats) for name, loop in LOOPS.items()}
    with tempfile.TemporaryDirectory() as folder, collectors.record(Path(folder), steps=0):
        graph = captured()
        # Past the steps that are timed each.
        labelled(graph, 3_000)
        recorded_ns = {name: least(loop, graph, repeats) for name, loop in LOOPS.items()}
    print("| | without a recorder | with | the recorder's |")
    print("| --- | ---: | ---: | ---: |")
    for name, base_ns in baseline_ns.items():
        with_ns = recorded_ns[name]
        print(f"| {name} | {base_ns:,.0f} ns | {with_ns:,.0f} ns | {with_ns - base_ns:,.0f} ns |")
    label_ns = recorded_ns["replay in a label"] - baseline_ns["replay in a label"]
    print(f"goal: {GOAL_NS:,} ns, {'met' if label_ns < GOAL_NS else 'missed'}", file=sys.stderr)


def captured() -> Any:
    import torch

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        pass
    return graph


def plain(graph: Any, steps: int) -> None:
    for _ in range(steps):
        graph.replay()


def labelled(graph: Any, steps: int) -> None:
    """Each replay in a label of one of 200 sizes."""
    import collectors

    for step in range(steps):
        with collectors.label("decode", real=step % 200, phase="decode", batch=256):
            graph.replay()


LOOPS: Final[dict[str, Callable[[Any, int], None]]] = {
    "replay": plain,
    "replay in a label": labelled,
}


def least(loop: Callable[[Any, int], None], graph: Any, repeats: int) -> float:
    """Fastest time of a step, in ns."""
    times = []
    for _ in range(repeats):
        start_time = time.thread_time_ns()
        loop(graph, STEPS)
        times.append((time.thread_time_ns() - start_time) / STEPS)
    return min(times)


if __name__ == "__main__":
    main()
