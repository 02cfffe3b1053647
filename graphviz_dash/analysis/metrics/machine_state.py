"""Machine state during the clean timings: host load, GPU clocks and agreement of the processes.

thresholds.py holds the thresholds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from statistics import median
from typing import TYPE_CHECKING

from msgspec import Struct

from graphviz_dash.analysis.absence import explain_missing
from graphviz_dash.analysis.metrics.caveats import Caveat, CaveatCode, make_caveat
from graphviz_dash.analysis.metrics.run_metrics import (
    MetricValue,
    get_step_times,
    make_missing_value,
    make_value,
)
from graphviz_dash.analysis.metrics.thresholds import BUSY_HOST, DRIFT, MAX_CLOCK_RATIO
from graphviz_dash.model.absence import Fact

if TYPE_CHECKING:
    from graphviz_dash.model.run import Run
    from graphviz_dash.model.timings import CleanTimings


class CpuLoop(Struct, frozen=True):
    """Timings of the fixed CPU loop next to a run."""

    median_ns: float
    """Median over all repetitions."""
    slowdown: float
    """Mean over all repetitions divided by the fastest: 1 on an otherwise idle host."""
    processes: int
    """Number of processes that ran it."""


def compute_cpu_loop(run: Run) -> CpuLoop | None:
    """Summarise the CPU loop next to the clean timings of ``run``; None if not recorded."""
    processes = run.clean.processes if run.clean is not None else ()
    turns = [*chain.from_iterable(process.cpu_loop_ns for process in processes)]
    if not turns or not min(turns):
        return None
    return CpuLoop(median(turns), sum(turns) / len(turns) / min(turns), len(processes))


def compute_machine_metrics(run: Run) -> Iterator[MetricValue]:
    """Yield the metrics of the host load and the GPU clock."""
    loop = compute_cpu_loop(run)
    if loop is None:
        for metric in ("cpu_loop", "cpu_slowdown"):
            yield make_missing_value(metric, explain_missing(run, Fact.MACHINE_STATE))
    else:
        yield make_value("cpu_loop", loop.median_ns)
        yield make_value("cpu_slowdown", loop.slowdown)
    processes = run.clean.processes if run.clean is not None else ()
    clocks = [process.gpu.sm_mhz for process in processes if process.gpu is not None]
    if clocks:
        yield make_value("sm_clock", median(clocks) * 1e6)
    else:
        fact = Fact.GPU_CLOCKS if processes else Fact.MACHINE_STATE
        yield make_missing_value("sm_clock", explain_missing(run, fact))


def find_machine_caveats(run: Run, baseline: Run | None) -> Iterator[Caveat]:
    """Find machine effects on the timings of ``run`` that its baseline does not share."""
    if run.clean is None:
        return
    loop = compute_cpu_loop(run)
    other = compute_cpu_loop(baseline) if baseline is not None else None
    if loop is not None and loop.slowdown > BUSY_HOST:
        yield make_caveat(CaveatCode.BUSY_HOST, loop=loop)
    if loop is not None and other is not None and baseline is not None:
        faster, slower = sorted((loop.median_ns, other.median_ns))
        if slower > (1 + DRIFT) * faster:
            yield make_caveat(
                CaveatCode.HOST_MISMATCH,
                run_ns=loop.median_ns,
                baseline_ns=other.median_ns,
                baseline=baseline.name,
            )
    yield from _check_processes(run.clean)
    yield from _check_gpu(run.clean)


def _check_processes(clean: CleanTimings) -> Iterator[Caveat]:
    if len(clean.processes) < 2:
        return
    series: tuple[tuple[str, Sequence[Sequence[int]]], ...] = (
        ("step_time", get_step_times(clean)),
        ("step_interval", clean.process_back_to_back_ns),
    )
    for metric, processes in series:
        medians = tuple(float(median(times)) for times in processes if times)
        if medians and max(medians) > (1 + DRIFT) * min(medians):
            yield make_caveat(CaveatCode.PROCESS_VARIANCE, metric=metric, medians=medians)


def _check_gpu(clean: CleanTimings) -> Iterator[Caveat]:
    states = [process.gpu for process in clean.processes if process.gpu is not None]
    if not states:
        return
    causes = tuple(dict.fromkeys(cause for state in states for cause in state.throttle_reasons))
    clocks = [state.sm_mhz for state in states]
    if causes or max(clocks) > MAX_CLOCK_RATIO * min(clocks):
        yield make_caveat(
            CaveatCode.SLOW_GPU if causes else CaveatCode.CLOCK_VARIANCE,
            causes=causes,
            lowest=min(clocks),
            highest=max(clocks),
            maximum=max(state.max_sm_mhz for state in states),
        )
