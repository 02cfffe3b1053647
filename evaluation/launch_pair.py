"""What the interpreter adds to a repeat launch: the same trials with four of their calls made in C.

    cc -O3 -shared -fPIC -o launch_pair.so evaluation/launch_pair.c
    python -m evaluation.launch_pair ./launch_pair.so [--trials 12] [--processes 4]

``bench launch`` measures each graph in several processes, and again with both launches and their
ends called and timed by ``launch_pair.c``. Prints the CPU time of the repeat launch in µs: the
median over the processes of their 25th percentiles, because some processes meet a busy machine.
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import statistics
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Final

from graphviz_dash.model.launch import LaunchMeasure, Topology

GRAPHS: Final = (
    *(Topology(1, length, False, None, 0) for length in (10, 100, 500, 1000, 2000)),
    Topology(4, 100, False, None, 0),
)
MEASURES: Final = (
    LaunchMeasure.FIRST_LAUNCH_CPU,
    LaunchMeasure.FIRST_LAUNCH,
    LaunchMeasure.REPEAT_LAUNCH_CPU,
    LaunchMeasure.REPEAT_LAUNCH,
)
"""In the order in which launch_pair.c writes them."""

WAYS: Final = ("Python", "C")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("library")
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--processes", type=int, default=4)
    arguments = parser.parse_args()
    fresh = ProcessPoolExecutor(
        1, mp_context=multiprocessing.get_context("spawn"), max_tasks_per_child=1
    )
    print("| graph | called from Python | from C | difference | of each process |")
    print("| --- | ---: | ---: | ---: | --- |")
    with fresh:
        for graph in GRAPHS:
            ratios = [
                fresh.submit(
                    measured, graph, arguments.trials, arguments.library, number % 2
                ).result()
                for number in range(arguments.processes)
            ]
            print(row(graph, ratios))


def measured(graph: Topology, trials: int, library: str, first: int) -> dict[str, list[int]]:
    """Repeat launches in ns by way of calling; ``first`` starts."""
    from collectors.launch.measure import LaunchBenchmark  # needs CUDA
    from collectors.passes.gc_off import disable_gc

    bench: Any = LaunchBenchmark(graph.width)
    by_python = bench._launched_twice
    by_c = from_c(library, ctypes.CDLL("libcuda.so.1"), int(bench._streams[0]))
    samples: dict[str, list[int]] = {}
    with disable_gc():
        for way in WAYS[first:] + WAYS[:first]:
            bench._launched_twice = by_python if way == "Python" else by_c
            rows = [bench.measure(graph) for _ in range(trials + 1)][1:]
            samples[way] = [row[LaunchMeasure.REPEAT_LAUNCH_CPU] for row in rows]
    return samples


def from_c(library: str, cuda: Any, stream: int) -> Callable[[Any, dict[LaunchMeasure, int]], None]:
    """Build the replacement of the bench's two launches; ``cuda`` is libcuda."""
    pair = ctypes.CDLL(library).launch_pair
    functions = [
        ctypes.cast(one, ctypes.c_void_p) for one in (cuda.cuGraphLaunch, cuda.cuStreamSynchronize)
    ]
    ns = (ctypes.c_int64 * len(MEASURES))()

    def launched_twice(executable: Any, samples: dict[LaunchMeasure, int]) -> None:
        handles = ctypes.c_void_p(int(executable)), ctypes.c_void_p(stream)
        status = pair(*functions, *handles, ns)
        if status != 0:
            raise RuntimeError(f"a launch or a wait returned CUresult {status}")
        samples.update(zip(MEASURES, ns, strict=True))

    return launched_twice


def row(graph: Topology, found: list[dict[str, list[int]]]) -> str:
    python, c = (
        [statistics.quantiles(process[way], n=4)[0] / 1e3 for process in found] for way in WAYS
    )
    differences = sorted(left - right for left, right in zip(python, c, strict=True))
    text = " ".join(f"{value:+.2f}" for value in differences)
    return (
        f"| {graph.width} x {graph.length} | {statistics.median(python):.2f} "
        f"| {statistics.median(c):.2f} | {statistics.median(differences):+.2f} | {text} |"
    )


if __name__ == "__main__":
    main()
