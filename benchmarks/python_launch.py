"""What a launch of a graph from Python costs beyond the driver, by how it is called.

    python -m benchmarks.python_launch [--trials 2000]

Prints the median CPU time of a repeat launch of a line of 10 and of 1,000 empty kernels into an
empty stream: through each binding, with names bound or looked up, right after another call of the
same kind (warm) and after the CPU's caches were swept (cold).
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from cuda.bindings import driver, runtime

from collectors.driver.calls import call
from collectors.launch.measure import LaunchBenchmark
from collectors.passes.gc_off import disable_gc
from graphviz_dash.model.launch import Topology

LENGTHS: Final = (10, 1000)
_SWEPT: Final = np.zeros(8 << 20, dtype=np.uint8)

Launch = Callable[[], object]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=2000)
    trials = parser.parse_args().trials
    bench = LaunchBenchmark(1)
    print("| nodes | how | warm, µs | p25 to p75 | cold, µs | p25 to p75 |")
    print("| ---: | --- | ---: | ---: | ---: | ---: |")
    for length in LENGTHS:
        graph = bench._capture(Topology(1, length, False, None, 0), {})
        executable = call(runtime.cudaGraphInstantiate, graph, 0)
        stream = bench._streams[0]
        for name, launch in ways(executable, stream).items():
            warm = timed(launch, stream, trials, lambda: None)
            cold = timed(launch, stream, trials // 10, sweep)
            print(f"| {length:,} | {name} | {shown(warm)} | {shown(cold)} |")
    noop_ns = timed(lambda: None, bench._streams[0], trials, lambda: None)
    print(f"| | a lambda that does nothing | {shown(noop_ns)} | | |")
    print(f"| | reading the clock twice | {shown(clocks(trials))} | | |")


def ways(executable: Any, stream: Any) -> dict[str, Launch]:
    """Launch functions by way of calling."""
    exec_handle, stream_handle = int(executable), int(stream)
    driver_exec, driver_stream = driver.CUgraphExec(exec_handle), driver.CUstream(stream_handle)
    library = ctypes.CDLL("libcuda.so.1")
    held = ctypes.PyDLL("libcuda.so.1")
    pointers = ctypes.c_void_p(exec_handle), ctypes.c_void_p(stream_handle)
    from_runtime, from_driver = runtime.cudaGraphLaunch, driver.cuGraphLaunch
    plain, holding = library.cuGraphLaunch, held.cuGraphLaunch
    return {
        "cuda.bindings.runtime": lambda: from_runtime(executable, stream),
        "cuda.bindings.runtime, looked up": lambda: runtime.cudaGraphLaunch(executable, stream),
        "cuda.bindings.driver": lambda: from_driver(driver_exec, driver_stream),
        "cuda.bindings.driver, integers": lambda: from_driver(exec_handle, stream_handle),
        "ctypes": lambda: plain(*pointers),
        "ctypes, the interpreter's lock kept": lambda: holding(*pointers),
    }


def timed(launch: Launch, stream: Any, trials: int, before: Callable[[], object]) -> list[int]:
    """CPU time of each call in ns, each into an empty stream."""
    clock, wait = time.perf_counter_ns, runtime.cudaStreamSynchronize
    timings = []
    with disable_gc():
        for _ in range(trials):
            wait(stream)
            before()
            begin = clock()
            launch()
            timings.append(clock() - begin)
    return timings


def clocks(trials: int) -> list[int]:
    """Two readings of the clock in a row, in ns."""
    clock = time.perf_counter_ns
    timings = []
    for _ in range(trials):
        begin = clock()
        timings.append(clock() - begin)
    return timings


def sweep() -> None:
    """Evict the caches of the core."""
    _SWEPT.__iadd__(1)


def shown(values: list[int]) -> str:
    """Median and quartiles in µs, as two cells."""
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle / 1e3:.2f} | {low / 1e3:.2f} to {high / 1e3:.2f}"


if __name__ == "__main__":
    main()
