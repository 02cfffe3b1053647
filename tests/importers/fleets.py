from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from graphviz_dash.features.ranks.fleet import FleetFindings
from graphviz_dash.features.ranks.fleet_import import (
    Fleet,
    collect_fleet,
    compute_answers,
)
from graphviz_dash.importers import tasks
from graphviz_dash.importers.locations import find_locations
from tests.trace_builder import TraceBuilder

US = 1_000


RANKS = 8


def rank(
    folder: Path,
    number: int,
    *,
    slow_us: int = 0,
    extra: bool = False,
    late_us: int = 0,
    name: str = "gemm",
    gpu: str = "NVIDIA H200",
    world: int = RANKS,
) -> Path:
    """Build three steps of 1 ms: two kernels of 100 µs from a graph, then an all-reduce until the
    end. ``late_us``: delay of the launch call. ``name``: of the second kernel, the slow one.
    Metadata of the trace follows its events.
    """
    trace = TraceBuilder(device_names=[gpu], fields_last=True)
    trace.fields["distributedInfo"] = {"rank": number, "world_size": world}
    for step in range(3):
        begin = step * 1_000 * US
        trace.annotation(f"ProfilerStep#{step}", begin, 999 * US)
        launched = begin + (10 + late_us) * US
        correlation = trace.runtime("cudaGraphLaunch", launched, 5 * US)
        at = launched + 10 * US
        for kernel in ("norm", name, *(("more",) if extra else ())):
            duration = (100 + (slow_us if kernel == name else 0)) * US
            trace.kernel(kernel, at, duration, correlation=correlation)
            at += duration + 1 * US
        reduction = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
        trace.kernel(reduction, at, begin + 990 * US - at, correlation=correlation)
    folder.mkdir(exist_ok=True)
    return trace.write(folder / f"rank{number}.json.gz")


@contextmanager
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def work_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands read files in threads: a process takes longer to start than to read small ones."""

    def pool(workers: int, **_: object) -> Executor:
        return ThreadPoolExecutor(workers)

    monkeypatch.setattr(tasks, "ProcessPoolExecutor", pool)


def fleet_of(folder: Path) -> Fleet:
    return collect_fleet(find_locations([str(folder)]), threads)


def uneven_fleet(folder: Path) -> Fleet:
    """Build eight ranks: the third has an extra kernel, the sixth is slow, the seventh launches
    late.
    """
    for number in range(RANKS):
        rank(
            folder,
            number,
            slow_us=80 if number == 5 else 0,
            extra=number == 2,
            late_us=300 if number == 6 else 0,
        )
    return fleet_of(folder)


def the_answer(fleet: Fleet) -> FleetFindings:
    (found,) = compute_answers(fleet)
    return found
