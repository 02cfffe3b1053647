"""Metrics of a single run; ``comparison`` adds those that need a baseline.

Throughput divides the operations that the workload states by the back-to-back interval of the clean
pass. The peak is the vendor's dense peak for the stated precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from statistics import median
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.absence import NO_GPU_WORK, NO_STEP_MARKS, explain_missing
from graphviz_dash.analysis.metrics.graph_coverage import Coverage
from graphviz_dash.analysis.metrics.registry import METRICS, Metric
from graphviz_dash.analysis.metrics.thresholds import MUCH_COMMUNICATION
from graphviz_dash.analysis.sample_statistics import (
    Spread,
    Summary,
    compute_interval,
    compute_resampled_process_medians,
    summarise,
)
from graphviz_dash.analysis.trace.collectives import measure_communication
from graphviz_dash.analysis.trace.cpu_time import compute_self_cpu_ns
from graphviz_dash.analysis.trace.gpu_records import find_missing_gpu_work
from graphviz_dash.analysis.trace.integrity import (
    Claim,
    TraceIntegrity,
    assess_integrity,
    select_launched_steps,
)
from graphviz_dash.analysis.trace.steps import Step, StepMethod
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.run import ExecutionMode, Run
from graphviz_dash.model.timings import CleanTimings, GraphLifecycle
from graphviz_dash.units import format_percent

_NO_PEAK: Final = (
    "the memory snapshot has no history of allocations, or histories of several GPUs without times"
)


class MetricValue(Struct, frozen=True):
    """One metric value of a run, or the reason why it is missing."""

    metric: Metric
    value: float | None
    """Value in the metric's unit; None if ``missing``."""
    spread: Spread | None = None
    """None for counts and single measurements."""
    missing: Missing | None = None

    @property
    def text(self) -> str:
        """The value with its unit; an en dash if missing."""
        return self.metric.format(self.value)

    @property
    def interval_contains_one(self) -> bool:
        """True if the interval of a ratio contains 1."""
        spread = self.spread
        return spread is not None and spread.high is not None and spread.low <= 1 <= spread.high


def make_value(metric: str, value: float, spread: Spread | None = None) -> MetricValue:
    """Make a metric value; a spread without it is extended to it, which is a caveat."""
    return MetricValue(METRICS[metric], value, None if spread is None else spread.include(value))


def make_missing_value(metric: str, missing: Missing) -> MetricValue:
    """Make a missing value."""
    return MetricValue(METRICS[metric], None, None, missing)


def compute_step_metrics(run: Run) -> Iterable[MetricValue]:
    """Yield the timings of the clean pass."""
    clean = run.clean
    if clean is None:
        for metric in ("step_time", "step_interval", "launch_cpu_time"):
            yield make_missing_value(metric, explain_missing(run, Fact.CLEAN_PASS))
        return
    missing_step = Missing(Fact.STEP_TIMES, "no synchronised iteration was timed")
    missing_interval = Missing(Fact.STEP_TIMES, "no back-to-back iteration was timed")
    walls = get_step_times(clean)
    launches = [[step.launch_cpu_ns for step in steps] for steps in clean.process_steps]
    for metric, processes, missing in (
        ("step_time", walls, missing_step),
        ("step_interval", clean.process_back_to_back_ns, missing_interval),
        ("launch_cpu_time", launches, missing_step),
    ):
        yield _compute_clean_median(metric, processes, missing)


def get_step_times(clean: CleanTimings) -> list[list[int]]:
    """Return the wall times of the synchronised iterations of each process, in ns."""
    return [[step.wall_ns for step in steps] for steps in clean.process_steps]


def _compute_clean_median(
    metric: str, processes: Sequence[Sequence[int]], missing: Missing
) -> MetricValue:
    """Return the median over the iterations of all ``processes``.

    The spread of several processes is the interval that covers variation between them; that of a
    single one, its quartiles.
    """
    summary = summarise([time for times in processes for time in times])
    if summary is None or len(processes) < 2:
        return _make_median(metric, summary, missing)
    medians = compute_resampled_process_medians(processes, 0)
    spread = compute_interval(medians, summary.spread.samples, len(processes))
    return make_value(metric, summary.median, spread)


def compute_clean_step_ns(run: Run) -> float | None:
    """Return the median step time of the clean pass; None if no iteration was timed."""
    summary = summarise([step.wall_ns for step in run.clean.steps] if run.clean else [])
    return summary.median if summary is not None else None


def compute_traced_slowdown(run: Run, traced_steps: tuple[Step, ...]) -> float | None:
    """Return the ratio of traced to clean step time, both medians."""
    clean = compute_clean_step_ns(run)
    if not clean or not traced_steps or traced_steps[0].method is StepMethod.WHOLE:
        return None
    traced_spread = summarise([step.duration_ns for step in traced_steps])
    return None if traced_spread is None else traced_spread.median / clean


def compute_graph_costs(run: Run) -> Iterable[MetricValue]:
    """Yield the one-off costs from the clean pass, summed over the graphs."""
    metrics: dict[str, Callable[[GraphLifecycle], int | None]] = {
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
            yield make_missing_value(metric, explain_missing(run, Fact.GRAPH_COSTS))
        elif len(values) < len(lives):
            yield make_missing_value(
                metric, Missing(Fact.GRAPH_COSTS, "the bundle lacks it for some graphs")
            )
        else:
            yield make_value(metric, sum(values))


def compute_one_off_cost(
    mode: ExecutionMode, clean: CleanTimings, step_ns: float
) -> float | Missing:
    """Return the cost of the graphs of a run before they can save time, in ns.

    If one graph is the whole step, the first launch minus a step is the extra cost over a replay.
    For graphs of parts of a step, separately measured uploads replace it.
    """
    if mode.is_compiled:
        return Missing(
            Fact.COMPILE_TIME,
            "compilation is most of the cost and is not timed separately from the warm-up",
        )
    once_ns = sum(life.capture_ns + life.instantiate_ns for life in clean.graphs)
    if mode.captures_entire_step:
        return once_ns + sum(life.first_launch_ns for life in clean.graphs) - step_ns
    uploads = [life.upload_ns for life in clean.graphs]
    timed_uploads = [upload for upload in uploads if upload is not None]
    if len(timed_uploads) < len(uploads):
        return Missing(Fact.UPLOAD, "the upload of a graph was not timed")
    return float(once_ns + sum(timed_uploads))


def compute_memory_metrics(run: Run) -> Iterable[MetricValue]:
    """Yield allocator statistics after the clean pass."""
    memory = run.memory
    if memory is None:
        for metric in ("private_pool", "allocated", "reserved", "peak_reserved", "peak_allocated"):
            yield make_missing_value(metric, explain_missing(run, Fact.MEMORY))
        return
    yield make_value("private_pool", sum(pool.reserved_bytes for pool in memory.pools))
    yield make_value("allocated", memory.allocated_bytes)
    yield make_value("reserved", memory.reserved_bytes)
    for metric, peak in (
        ("peak_reserved", memory.peak_reserved_bytes),
        ("peak_allocated", memory.peak_allocated_bytes),
    ):
        if peak is None:
            yield make_missing_value(metric, Missing(Fact.PEAK_MEMORY, _NO_PEAK))
        else:
            yield make_value(metric, peak)


def compute_traced_metrics(
    run: Run, traced_steps: tuple[Step, ...], integrity: TraceIntegrity | None = None
) -> Iterable[MetricValue]:
    """Yield metrics of the steps in the run's replay trace; ``integrity`` is computed if None."""
    if integrity is None and run.replay_trace is not None:
        integrity = assess_integrity(run.replay_trace, traced_steps)
    series: dict[str, Callable[[Step], float]] = {
        "traced_step_time": lambda step: step.duration_ns,
        "gpu_busy": lambda step: step.busy_ns,
        "kernels": lambda step: step.kernels,
        "copies": lambda step: step.copies,
        "sets": lambda step: step.sets,
        "launches": lambda step: step.launches,
        "graph_launches": lambda step: step.graph_launches,
    }
    missing = _find_missing_steps(run, traced_steps, integrity)
    no_steps = Missing(Fact.TRACED_STEPS, "the trace has no steps")
    no_gpu_work = None if run.replay_trace is None else find_missing_gpu_work(run.replay_trace)
    if no_gpu_work is None and integrity is not None:
        no_gpu_work = integrity.explain(Claim.COUNTS)
    no_busy_time = no_gpu_work or (None if integrity is None else integrity.explain(Claim.BUSY))
    gpu_steps = traced_steps
    if integrity is not None and integrity.complete_steps:
        gpu_steps = tuple(traced_steps[index] for index in integrity.complete_steps)
    counted_steps = no_gpu_work or gpu_steps
    launched_steps = counted_steps
    if integrity is not None and (
        integrity.lost_launches
        or integrity.unknown_launches
        or any(step.launches for step in traced_steps)
    ):
        launched_steps = select_launched_steps(traced_steps, integrity)
    steps_by_metric = {
        "traced_step_time": traced_steps,
        "gpu_busy": no_busy_time or gpu_steps,
        "launches": launched_steps,
        "graph_launches": launched_steps,
    }
    for metric, read in series.items():
        rows = missing or steps_by_metric.get(metric, counted_steps)
        if isinstance(rows, Missing):
            yield make_missing_value(metric, rows)
        else:
            yield _make_median(metric, summarise([read(step) for step in rows]), no_steps)
    yield _compute_busy_fraction(gpu_steps, missing or no_busy_time)
    if missing is not None or run.replay_trace is None:
        yield make_missing_value("self_cpu_time", missing or explain_missing(run, Fact.TRACED_PASS))
    else:
        summary = summarise(compute_self_cpu_ns(run.replay_trace, traced_steps).tolist())
        yield _make_median("self_cpu_time", summary, no_steps)
    busy = sum(step.busy_ns for step in gpu_steps)
    if busy and no_busy_time is None:
        yield make_value("concurrency", sum(step.work_ns for step in gpu_steps) / busy)
    else:
        yield make_missing_value("concurrency", missing or no_busy_time or NO_GPU_WORK)


def _find_missing_steps(
    run: Run, traced_steps: tuple[Step, ...], integrity: TraceIntegrity | None
) -> Missing | None:
    if not traced_steps:
        return explain_missing(run, Fact.TRACED_PASS)
    if traced_steps[0].method is StepMethod.WHOLE:
        return NO_STEP_MARKS
    if any(step.duration_ns <= 0 for step in traced_steps):
        return Missing(Fact.TRACED_STEPS, "the trace has a step without duration")
    return None if integrity is None else integrity.explain(Claim.STEPS)


def _compute_busy_fraction(traced_steps: tuple[Step, ...], missing: Missing | None) -> MetricValue:
    """Return the median busy time over the median step time.

    The busy and idle parts of a median step therefore add up. The spread is that of the busy time
    over the same step time, so that it contains the value.
    """
    times = summarise([step.duration_ns for step in traced_steps])
    busy = summarise([step.busy_ns for step in traced_steps])
    if missing is not None or times is None or busy is None:
        return make_missing_value("busy_fraction", missing or NO_GPU_WORK)
    spread = replace(
        busy.spread,
        low=busy.spread.low / times.median,
        high=min((busy.spread.high or 0.0) / times.median, 1.0),
    )
    return make_value("busy_fraction", busy.median / times.median, spread)


def compute_coverage_metrics(coverage: Coverage | Missing) -> Iterable[MetricValue]:
    """Yield the graph shares of the traced steps."""
    values: dict[str, Callable[[Coverage], float]] = {
        "graph_work": lambda shares: shares.nodes,
        "graph_work_share": lambda shares: shares.work_share,
        "graph_time_share": lambda shares: shares.time_share,
    }
    for metric, read in values.items():
        if isinstance(coverage, Missing):
            yield make_missing_value(metric, coverage)
        else:
            yield make_value(metric, read(coverage))


def count_graph_objects(run: Run) -> Iterable[MetricValue]:
    """Yield the number of graphs, nodes and edges that the driver reports in the capture pass."""
    metrics = ("graphs", "graph_nodes", "graph_edges")
    if not run.graphs:
        for metric in metrics:
            yield make_missing_value(metric, explain_missing(run, Fact.GRAPHS))
        return
    yield make_value("graphs", sum(graph.parent is None for graph in run.graphs))
    yield make_value("graph_nodes", sum(len(graph.nodes) for graph in run.graphs))
    yield make_value("graph_edges", sum(len(graph.edges) for graph in run.graphs))


def _make_median(metric: str, summary: Summary | None, missing: Missing) -> MetricValue:
    if summary is None:
        return make_missing_value(metric, missing)
    return make_value(metric, summary.median, summary.spread)


class CpuLoop(Struct, frozen=True):
    """Timings of the fixed CPU loop next to a run."""

    median_ns: float
    slowdown: float
    """Mean over all repetitions divided by the fastest: 1 on an otherwise idle host."""
    processes: int


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


def compute_communication_share(run: Run, traced_steps: tuple[Step, ...]) -> float:
    """Return a rank's fraction of traced GPU busy time in communication; 0 for a single process."""
    trace = run.replay_trace
    busy = sum(step.busy_ns for step in traced_steps)
    if run.manifest.job_rank is None or trace is None or not busy:
        return 0.0
    return sum(step.total_ns for step in measure_communication(trace, traced_steps)) / busy


def compute_traced_ratios(
    run: Run, metrics: Mapping[str, MetricValue], traced_steps: tuple[Step, ...]
) -> Iterator[MetricValue]:
    """Compute traced step and GPU busy time relative to the clean step time."""
    step = metrics["step_time"]
    share = compute_communication_share(run, traced_steps)
    for metric, source in (("observer_effect", "traced_step_time"), ("busy_of_clean", "gpu_busy")):
        figure = metrics[source]
        if source == "gpu_busy" and share > MUCH_COMMUNICATION:
            reason = (
                f"{format_percent(share)} of the traced GPU busy time is communication, which "
                "waits for other ranks, and waits less without the profiler"
            )
            yield make_missing_value(metric, Missing(Fact.GPU_WORK, reason))
        elif figure.value is None or not step.value:
            zero = Missing(Fact.STEP_TIMES, "the step time is 0")
            yield make_missing_value(metric, figure.missing or step.missing or zero)
        else:
            yield make_value(metric, figure.value / step.value)


def compute_one_off_metric(run: Run, step: MetricValue) -> MetricValue:
    """Compute the one-off cost of the run's graphs; ``step`` is its clean step time."""
    if run.clean is None or not run.clean.graphs:
        return make_missing_value("one_off_cost", explain_missing(run, Fact.GRAPH_COSTS))
    if step.value is None:
        return make_missing_value(
            "one_off_cost", step.missing or explain_missing(run, Fact.STEP_TIMES)
        )
    cost = compute_one_off_cost(run.mode, run.clean, step.value)
    if isinstance(cost, Missing):
        return make_missing_value("one_off_cost", cost)
    return make_value("one_off_cost", cost)


THROUGHPUT: Final = ("tokens_rate", "model_flops_rate", "mfu")


_NO_FLOPS: Final = Missing(Fact.WORKLOAD_FLOPS, "the workload does not state the FLOPs of a step")


class Peak(Struct, frozen=True):
    """The dense peak of a GPU for one precision."""

    gpu: str
    """Name reported by torch."""
    precision: str
    """Type of the matrix multiplications, such as ``bf16``."""
    flops: float
    """FLOP/s, without sparsity."""
    source: str


PEAKS: Final = (
    Peak("NVIDIA H200", "bf16", 989e12, "NVIDIA H200 data sheet: 1,979 TFLOPS with sparsity"),
    Peak(
        "NVIDIA H100 80GB HBM3", "bf16", 989e12, "NVIDIA H100 SXM data sheet: 1,979 with sparsity"
    ),
    Peak("NVIDIA H100 PCIe", "bf16", 756e12, "NVIDIA H100 PCIe data sheet: 1,513 with sparsity"),
    Peak("NVIDIA A100-SXM4-80GB", "bf16", 312e12, "NVIDIA A100 data sheet: 312 TFLOPS"),
    Peak("NVIDIA A100-SXM4-40GB", "bf16", 312e12, "NVIDIA A100 data sheet: 312 TFLOPS"),
    Peak("NVIDIA A100 80GB PCIe", "bf16", 312e12, "NVIDIA A100 data sheet: 312 TFLOPS"),
)
"""Full names reported by torch: an H200 NVL has a different peak than an H200."""


def get_peak(gpu: str, precision: str) -> Peak | None:
    """Return the peak of ``gpu``; None if unknown."""
    for peak in PEAKS:
        if (peak.gpu, peak.precision) == (gpu, precision):
            return peak
    return None


def compute_throughput(run: Run, interval: MetricValue) -> Iterator[MetricValue]:
    """Compute the throughput metrics from the workload and the back-to-back ``interval``."""
    work = run.manifest.workload.work
    if work is None:
        for metric in THROUGHPUT:
            yield make_missing_value(metric, _NO_FLOPS)
        return
    if not interval.value:
        for metric in THROUGHPUT:
            yield make_missing_value(
                metric,
                interval.missing or Missing(Fact.STEP_TIMES, "its back-to-back interval is 0"),
            )
        return
    if work.tokens is None:
        yield make_missing_value(
            "tokens_rate",
            Missing(Fact.WORKLOAD_FLOPS, "the workload does not state its tokens per step"),
        )
    else:
        yield _compute_rate("tokens_rate", work.tokens * 1e9, interval)
    yield _compute_rate("model_flops_rate", work.model_flops * 1e9, interval)
    gpu = run.manifest.environment.gpu_name
    peak = get_peak(gpu, work.precision)
    if peak is None:
        yield make_missing_value(
            "mfu", Missing(Fact.PEAK_FLOPS, f"the {work.precision} peak of {gpu} is unknown")
        )
    else:
        yield _compute_rate("mfu", work.model_flops * 1e9 / peak.flops, interval)


def _compute_rate(metric: str, per_step: float, interval: MetricValue) -> MetricValue:
    spread = interval.spread
    inverse_spread = None
    if spread is not None and spread.high is not None and spread.low > 0:
        inverse_spread = replace(spread, low=per_step / spread.high, high=per_step / spread.low)
    return make_value(metric, per_step / (interval.value or 1.0), inverse_spread)
