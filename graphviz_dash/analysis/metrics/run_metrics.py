"""The figures of one run by itself; compare.py adds those that need a baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphviz_dash.analysis.absence import why_missing
from graphviz_dash.analysis.metrics.graph_coverage import Coverage
from graphviz_dash.analysis.metrics.registry import METRICS, Metric
from graphviz_dash.analysis.sample_statistics import Spread, Summary, summarise
from graphviz_dash.analysis.trace.cpu_time import self_cpu_ns
from graphviz_dash.analysis.trace.steps import Step, StepMethod
from graphviz_dash.model.absence import Fact
from graphviz_dash.model.run import ExecutionMode

if TYPE_CHECKING:
    from graphviz_dash.model.run import Run
    from graphviz_dash.model.timings import CleanTimings, GraphLife


@dataclass(frozen=True)
class Figure:
    """One value of one run, in its metric's unit, or the reason why there is none.

    Exactly one of ``value`` and ``reason`` is None. ``spread`` is None for what was measured once
    or counted.
    """

    metric: Metric
    value: float | None
    spread: Spread | None = None
    reason: str | None = None

    @property
    def text(self) -> str:
        """The value with its unit; an en dash where it is absent."""
        return self.metric.format(self.value)


def present(metric: str, value: float, spread: Spread | None = None) -> Figure:
    """A figure with a value."""
    return Figure(METRICS[metric], value, spread)


def absent(metric: str, reason: str) -> Figure:
    """A figure without a value, and why."""
    return Figure(METRICS[metric], None, None, reason)


def step_figures(run: Run) -> Iterable[Figure]:
    """Step time, back-to-back interval and launch CPU time, from the clean pass."""
    clean = run.clean
    if clean is None:
        reason = why_missing(run, Fact.CLEAN_PASS).reason
        for metric in ("step_time", "step_interval", "launch_cpu_time"):
            yield absent(metric, reason)
        return
    walls = summarise([step.wall_ns for step in clean.steps])
    yield _median("step_time", walls, "no synchronised iteration was timed")
    yield _median(
        "step_interval", summarise(clean.back_to_back_ns), "no back-to-back iteration was timed"
    )
    launch = summarise([step.launch_cpu_ns for step in clean.steps])
    yield _median("launch_cpu_time", launch, "no synchronised iteration was timed")


def clean_step_ns(run: Run) -> float | None:
    """The median step time of the clean pass, in ns; None where no iteration was timed."""
    return next(iter(step_figures(run))).value


def traced_slowdown(run: Run, taken: tuple[Step, ...]) -> float | None:
    """Traced over clean step time, both medians; ``taken`` are the steps of the run's trace."""
    clean = clean_step_ns(run)
    if not clean or not taken or taken[0].method is StepMethod.WHOLE:
        return None
    traced = summarise([step.duration_ns for step in taken])
    return None if traced is None else traced.median / clean


def life_figures(run: Run) -> Iterable[Figure]:
    """What the run's graphs cost once, from the clean pass; sums over its graphs."""
    metrics: dict[str, Callable[[GraphLife], int | None]] = {
        "capture_time": lambda life: life.capture_ns,
        "instantiate_time": lambda life: life.instantiate_ns,
        "upload_time": lambda life: life.upload_ns,
        "first_launch_cpu_time": lambda life: life.first_launch_cpu_ns,
        "first_launch_time": lambda life: life.first_launch_ns,
    }
    lives = run.clean.graphs if run.clean is not None else ()
    for metric, read in metrics.items():
        values = [value for value in map(read, lives) if value is not None]
        if not lives:
            yield absent(metric, why_missing(run, Fact.GRAPH_COSTS).reason)
        elif len(values) < len(lives):
            yield absent(metric, "the bundle does not have it for every graph")
        else:
            yield present(metric, sum(values))


def one_off_cost(mode: ExecutionMode, clean: CleanTimings, step_ns: float) -> float | str:
    """What the graphs of a run cost before they can save anything, in ns, or why that is not known.

    Where one graph is the whole step, the first launch less a step is what it takes beyond a
    replay. Where graphs are parts of a step that is no comparison; their uploads, measured alone,
    stand for it.
    """
    if mode.is_compiled:
        return "the compilation is not timed apart from the warm-up, and is most of the cost"
    once = sum(life.capture_ns + life.instantiate_ns for life in clean.graphs)
    if mode.captures_whole_step:
        return once + sum(life.first_launch_ns for life in clean.graphs) - step_ns
    uploads = [life.upload_ns for life in clean.graphs]
    known = [upload for upload in uploads if upload is not None]
    if len(known) < len(uploads):
        return "the upload of a graph was not timed"
    return float(once + sum(known))


def memory_figures(run: Run) -> Iterable[Figure]:
    """What the allocator held, from its statistics after the clean pass."""
    memory = run.memory
    if memory is None:
        reason = why_missing(run, Fact.MEMORY).reason
        for metric in ("private_pool", "peak_reserved", "peak_allocated"):
            yield absent(metric, reason)
        return
    yield present("private_pool", sum(pool.reserved_bytes for pool in memory.pools))
    for metric, peak in (
        ("peak_reserved", memory.peak_reserved_bytes),
        ("peak_allocated", memory.peak_allocated_bytes),
    ):
        if peak is None:
            yield absent(metric, "the memory snapshot holds no history")
        else:
            yield present(metric, peak)


def traced_figures(run: Run, taken: tuple[Step, ...]) -> Iterable[Figure]:
    """What the traced steps show; ``taken`` are the steps of the run's replay trace."""
    series: dict[str, Callable[[Step], float]] = {
        "traced_step_time": lambda step: step.duration_ns,
        "gpu_busy": lambda step: step.busy_ns,
        "busy_fraction": lambda step: step.busy_ns / step.duration_ns,
        "kernels": lambda step: step.kernels,
        "copies": lambda step: step.copies,
        "sets": lambda step: step.sets,
        "launches": lambda step: step.launches,
        "graph_launches": lambda step: step.graph_launches,
    }
    reason = None
    if not taken:
        reason = why_missing(run, Fact.TRACED_PASS).reason
    elif taken[0].method is StepMethod.WHOLE:
        reason = "the trace marks no steps"
    elif any(step.duration_ns <= 0 for step in taken):
        reason = "the trace has a step without duration"
    for metric, read in series.items():
        if reason is not None:
            yield absent(metric, reason)
            continue
        summary = summarise([read(step) for step in taken])
        yield _median(metric, summary, "the trace has no steps")
    if reason is not None or run.replay_trace is None:
        yield absent("self_cpu_time", reason or why_missing(run, Fact.TRACED_PASS).reason)
    else:
        summary = summarise(self_cpu_ns(run.replay_trace, taken).tolist())
        yield _median("self_cpu_time", summary, "the trace has no steps")
    busy = sum(step.busy_ns for step in taken)
    if busy:
        yield present("concurrency", sum(step.work_ns for step in taken) / busy)
    else:
        yield absent("concurrency", reason or "nothing ran on the GPU in the traced steps")


def coverage_figures(run: Run, found: Coverage | str) -> Iterable[Figure]:
    """How much of the traced steps ran from graphs; ``found`` is their coverage or why not."""
    values: dict[str, Callable[[Coverage], float]] = {
        "graph_work": lambda known: known.nodes,
        "graph_work_share": lambda known: known.work_share,
        "graph_time_share": lambda known: known.time_share,
    }
    for metric, read in values.items():
        if run.mode.is_baseline:
            yield absent(metric, why_missing(run, Fact.GRAPHS).reason)
        elif isinstance(found, str):
            yield absent(metric, found)
        else:
            yield present(metric, read(found))


def graph_figures(run: Run) -> Iterable[Figure]:
    """How many graphs, nodes and edges the capture pass read from the driver."""
    metrics = ("graphs", "graph_nodes", "graph_edges")
    if not run.graphs:
        reason = why_missing(run, Fact.GRAPHS).reason
        for metric in metrics:
            yield absent(metric, reason)
        return
    yield present("graphs", sum(graph.parent is None for graph in run.graphs))
    yield present("graph_nodes", sum(len(graph.nodes) for graph in run.graphs))
    yield present("graph_edges", sum(len(graph.edges) for graph in run.graphs))


def _median(metric: str, summary: Summary | None, reason: str) -> Figure:
    if summary is None:
        return absent(metric, reason)
    return present(metric, summary.median, summary.spread)
