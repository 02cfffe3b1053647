"""The machine as it was beside the clean timings: how busy the host was, the GPU's clocks, and
whether the processes of a run agree. Thresholds: registry.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from statistics import median
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from msgspec import Struct

from graphviz_dash.analysis.absence import why_missing
from graphviz_dash.analysis.metrics.run_metrics import Figure, absent, present, step_times
from graphviz_dash.analysis.metrics.thresholds import BUSY_HOST, DRIFT, UNLIKE_CLOCKS
from graphviz_dash.model.absence import Fact

if TYPE_CHECKING:
    from graphviz_dash.model.run import Run
    from graphviz_dash.model.timings import CleanTimings

HOST_METRICS = ("step_time", "launch_cpu_time", "speedup", "step_saving")
"""What depends on the host's processors."""


class CpuLoop(Struct, frozen=True):
    """The fixed loop of Python beside a run."""

    median_ns: float
    """Median of all its turns."""
    slowdown: float
    """The mean of all turns over the fastest: 1 on a host that does nothing else."""
    processes: int
    """The processes beside which it ran."""


def cpu_loop(run: Run) -> CpuLoop | None:
    """The loop beside the clean timings of ``run``; None where none ran."""
    processes = run.clean.processes if run.clean is not None else ()
    turns = [*chain.from_iterable(process.cpu_loop_ns for process in processes)]
    if not turns or not min(turns):
        return None
    return CpuLoop(median(turns), sum(turns) / len(turns) / min(turns), len(processes))


def machine_figures(run: Run) -> Iterator[Figure]:
    """How busy the host and how fast the GPU's clock was."""
    loop = cpu_loop(run)
    if loop is None:
        for metric in ("cpu_loop", "cpu_slowdown"):
            yield absent(metric, why_missing(run, Fact.MACHINE_STATE))
    else:
        yield present("cpu_loop", loop.median_ns)
        yield present("cpu_slowdown", loop.slowdown)
    processes = run.clean.processes if run.clean is not None else ()
    clocks = [process.gpu.sm_mhz for process in processes if process.gpu is not None]
    if clocks:
        yield present("sm_clock", median(clocks) * 1e6)
    else:
        fact = Fact.GPU_CLOCKS if processes else Fact.MACHINE_STATE
        yield absent("sm_clock", why_missing(run, fact))


class BusyHost(Struct, frozen=True):
    """The fixed loop of Python took longer beside the timings than at its fastest, by more than
    BUSY_HOST: something else ran on the host's processors."""

    metrics: ClassVar[tuple[str, ...]] = HOST_METRICS
    loop: CpuLoop


class UnlikeHosts(Struct, frozen=True):
    """The fixed loop's medians beside a run and its baseline differ by more than DRIFT."""

    metrics: ClassVar[tuple[str, ...]] = HOST_METRICS
    own_ns: float
    """Beside the run."""
    other_ns: float
    """Beside the baseline."""
    baseline: str
    """Its name."""


class UnlikeProcesses(Struct, frozen=True):
    """The medians of a run's processes differ by more than DRIFT of the smallest. The interval has
    it; the cause is the machine's."""

    metric: str
    """Of the series."""
    medians: tuple[float, ...]
    """Of each process in its turn, in ns."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metric of the series."""
        return (self.metric,)


class SlowGpu(Struct, frozen=True):
    """The GPU's clocks were held down, or were not the same beside all processes."""

    metrics: ClassVar[tuple[str, ...]] = ("step_time", "step_interval")
    causes: tuple[str, ...]
    """What held them down, by NVML; empty where only the clocks differ."""
    lowest_mhz: int
    """The lowest clock of the multiprocessors beside any process."""
    highest_mhz: int
    """The highest beside any."""
    maximum_mhz: int
    """The highest that the GPU can have."""


MachineDoubt: TypeAlias = BusyHost | UnlikeHosts | UnlikeProcesses | SlowGpu


def of_machine(run: Run, against: Run | None) -> Iterator[MachineDoubt]:
    """What the machine did to the timings of ``run``, and did not to those of its baseline."""
    if run.clean is None:
        return
    loop = cpu_loop(run)
    other = cpu_loop(against) if against is not None else None
    if loop is not None and loop.slowdown > BUSY_HOST:
        yield BusyHost(loop)
    if loop is not None and other is not None and against is not None:
        faster, slower = sorted((loop.median_ns, other.median_ns))
        if slower > (1 + DRIFT) * faster:
            yield UnlikeHosts(loop.median_ns, other.median_ns, against.name)
    yield from _of_processes(run.clean)
    yield from _of_gpu(run.clean)


def _of_processes(clean: CleanTimings) -> Iterator[UnlikeProcesses]:
    if len(clean.processes) < 2:
        return
    series: tuple[tuple[str, Sequence[Sequence[int]]], ...] = (
        ("step_time", step_times(clean)),
        ("step_interval", clean.process_back_to_back_ns),
    )
    for metric, processes in series:
        medians = tuple(float(median(times)) for times in processes if times)
        if medians and max(medians) > (1 + DRIFT) * min(medians):
            yield UnlikeProcesses(metric, medians)


def _of_gpu(clean: CleanTimings) -> Iterator[SlowGpu]:
    states = [process.gpu for process in clean.processes if process.gpu is not None]
    if not states:
        return
    causes = tuple(dict.fromkeys(cause for state in states for cause in state.slowed_by))
    clocks = [state.sm_mhz for state in states]
    if causes or max(clocks) > UNLIKE_CLOCKS * min(clocks):
        maximum = max(state.max_sm_mhz for state in states)
        yield SlowGpu(causes, min(clocks), max(clocks), maximum)
