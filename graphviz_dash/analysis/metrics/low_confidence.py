"""Numeric caveats of a run's metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from statistics import median
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import get_column, get_spans
from graphviz_dash.analysis.metrics.caveats import Caveat, CaveatCode, make_caveat
from graphviz_dash.analysis.metrics.program_step import list_step_times
from graphviz_dash.analysis.metrics.recorded_step import compute_recorded_step, find_long_steps
from graphviz_dash.analysis.metrics.run_metrics import (
    MetricValue,
    compute_communication_share,
    compute_cpu_loop,
    get_step_times,
)
from graphviz_dash.analysis.metrics.thresholds import (
    BUSY_HOST,
    DRIFT,
    FEW_ITERATIONS,
    FEW_STEPS,
    FEW_TRACED_STEPS,
    LARGE_REMAINDER,
    MAX_CLOCK_RATIO,
    MAX_LONG_STEP_SHARE,
    MIN_OBSERVER_EFFECT,
    MUCH_COMMUNICATION,
    STRONG_OBSERVER,
    WIDE_RELATIVE_SPREAD,
)
from graphviz_dash.analysis.sample_statistics import summarise
from graphviz_dash.analysis.trace.gpu_records import find_missing_gpu_work
from graphviz_dash.analysis.trace.integrity import Claim, TraceIntegrity
from graphviz_dash.analysis.trace.steps import Step, StepMethod, measure_span_union
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.graph import ConditionalParams, ConditionalType
from graphviz_dash.model.run import Run
from graphviz_dash.model.timings import CleanTimings
from graphviz_dash.model.trace import Trace

_LOST_WORK: Final = "launch-without-work"


class GraphSource(StrEnum):
    """Source of a run's graphs."""

    RECORDER = "recorder"
    """Captures by torch that the recorder watched in a program."""
    IMPORT = "import"
    CAPTURE = "capture"
    WHOLE = "whole"
    """A report with graphs traced as single units, without their kernels."""


def find_caveats(
    run: Run,
    baseline: Run | None,
    figures: Mapping[str, MetricValue],
    traced_steps: tuple[Step, ...],
    integrity: TraceIntegrity | None,
) -> tuple[Caveat, ...]:
    """Find caveats for the metrics of ``run``, those of the headline first."""
    return (
        *_check_series(run),
        *find_machine_caveats(run, baseline),
        *_check_speedup(figures),
        *_check_extended_spreads(figures),
        *_check_equation(figures),
        *_check_steps(run, traced_steps),
        *_check_observer(run, figures),
        *_check_integrity(integrity),
        *_check_traces(run),
        *_check_loops(run),
        *_check_ranks(run, traced_steps),
        *(_check_pair(run, baseline) if baseline is not None else ()),
        *_check_recording(run),
        *_check_uneven_steps(run, figures),
    )


def _check_series(run: Run) -> Iterator[Caveat]:
    if run.clean is None:
        return
    series: tuple[tuple[str, Sequence[Sequence[int]]], ...] = (
        ("step_time", get_step_times(run.clean)),
        ("step_interval", run.clean.process_back_to_back_ns),
    )
    for metric, processes in series:
        values = [*chain.from_iterable(processes)]
        summary = summarise(values)
        if summary is None:
            continue
        count = len(values)
        if count < FEW_ITERATIONS:
            yield make_caveat(CaveatCode.FEW_ITERATIONS, metric=metric, count=count)
            continue
        firsts = chain.from_iterable(times[: len(times) // 2] for times in processes)
        seconds = chain.from_iterable(times[len(times) // 2 :] for times in processes)
        halves = [summarise([*half]) for half in (firsts, seconds)]
        first, second = (half.median if half else 0.0 for half in halves)
        workload = run.manifest.workload
        if abs(first - second) > DRIFT * summary.median:
            warmup = workload.warmup
            yield make_caveat(
                CaveatCode.DRIFT, metric=metric, first=first, second=second, warmup=warmup
            )
        if summary.relative_spread > WIDE_RELATIVE_SPREAD:
            yield make_caveat(
                CaveatCode.WIDE_SPREAD,
                metric=metric,
                share=summary.relative_spread,
                spread=summary.spread,
                iterations=workload.iterations,
            )


def _check_speedup(figures: Mapping[str, MetricValue]) -> Iterator[Caveat]:
    for metric in ("speedup", "speedup_interval", "recorded_speedup"):
        if figures[metric].interval_contains_one:
            figure = figures[metric]
            yield make_caveat(
                CaveatCode.NO_DIFFERENCE, metric=metric, value=figure.text, spread=figure.spread
            )


def _check_extended_spreads(figures: Mapping[str, MetricValue]) -> Iterator[Caveat]:
    for metric, figure in figures.items():
        if figure.spread is not None and figure.spread.has_extension:
            yield make_caveat(CaveatCode.EXTENDED_SPREAD, metric=metric, value=figure.text)


def _check_equation(figures: Mapping[str, MetricValue]) -> Iterator[Caveat]:
    remainder, saving = figures["remainder"].value, figures["step_saving"].value
    step_ns = figures["step_time"].value
    if remainder is None or saving is None or step_ns is None:
        return
    baseline_ns = step_ns + saving
    if baseline_ns > 0 and abs(remainder) > LARGE_REMAINDER * baseline_ns:
        ns = abs(remainder)
        yield make_caveat(CaveatCode.LARGE_REMAINDER, ns=ns, share=ns / baseline_ns)


def count_while_nodes(run: Run) -> int:
    """Count the While nodes of a run's graphs. A trace shows one of their iterations per replay."""
    return sum(
        isinstance(node.params, ConditionalParams) and node.params.type is ConditionalType.WHILE
        for graph in run.graphs
        for node in graph.nodes
    )


def _check_loops(run: Run) -> Iterator[Caveat]:
    loops = count_while_nodes(run)
    if loops and run.replay_trace is not None:
        yield make_caveat(CaveatCode.WHILE_LOOPS, nodes=loops)


def _check_steps(run: Run, traced_steps: tuple[Step, ...]) -> Iterator[Caveat]:
    if not traced_steps or run.replay_trace is None:
        return
    reason = find_missing_gpu_work(run.replay_trace)
    if reason is not None:
        yield make_caveat(CaveatCode.NO_GPU_WORK, reason=reason.reason)
    devices = measure_devices(run.replay_trace, traced_steps)
    if len(devices) > 1:
        yield make_caveat(CaveatCode.SEVERAL_GPUS, devices=devices)
    method = traced_steps[0].method
    if method is StepMethod.WHOLE:
        yield make_caveat(CaveatCode.NO_STEPS, step=traced_steps[0])
        return
    if method is not StepMethod.MARKED:
        yield make_caveat(CaveatCode.FOREIGN_STEPS, method=method.value)
    if len(traced_steps) < FEW_TRACED_STEPS:
        is_imported = bool(run.manifest.sources)
        yield make_caveat(
            CaveatCode.FEW_TRACED_STEPS, count=len(traced_steps), imported=is_imported
        )


def _check_observer(run: Run, figures: Mapping[str, MetricValue]) -> Iterator[Caveat]:
    observer = figures["observer_effect"].value
    if observer is not None and observer >= STRONG_OBSERVER:
        yield make_caveat(CaveatCode.OBSERVER, ratio=observer)
    if observer is not None and observer < MIN_OBSERVER_EFFECT:
        yield make_caveat(CaveatCode.PASS_MISMATCH, ratio=observer)
    fraction = figures["busy_of_clean"].value
    if fraction is not None and fraction > 1:
        is_rank = run.manifest.job_rank is not None
        yield make_caveat(CaveatCode.BUSY_ABOVE_CLEAN, share=fraction, is_rank=is_rank)


def _check_traces(run: Run) -> Iterator[Caveat]:
    replays = () if run.replay_trace is None else (run.replay_trace,)
    passes = {"traced pass": replays, "capture pass": run.capture_traces}
    has_no_work = any(find_missing_gpu_work(trace) is not None for trace in replays)
    for problem in run.problems:
        if has_no_work and problem.code == _LOST_WORK:
            continue  # NoGpuWork counts the launches
        names = [
            name
            for name, traces in passes.items()
            if any(problem in trace.info.problems for trace in traces)
        ]
        is_single = len(names) == 1 and all(passes.values())
        trace = names[0] if is_single else None
        yield make_caveat(CaveatCode.TRACE_DEFECT, problem=problem, trace=trace)


def _check_integrity(integrity: TraceIntegrity | None) -> Iterator[Caveat]:
    """Group the unsupported claims by reason. Unmarked steps are a separate caveat."""
    if integrity is None or not integrity.kernels:
        return  # without any GPU work, NoGpuWork holds the reason
    if integrity.empty_steps:
        yield make_caveat(
            CaveatCode.EMPTY_STEPS, count=integrity.empty_steps, steps=integrity.steps
        )
    if integrity.incomplete_launches:
        yield make_caveat(
            CaveatCode.INCOMPLETE_LAUNCHES,
            count=integrity.incomplete_launches,
            steps=integrity.steps,
        )
    if integrity.partial_replays:
        yield make_caveat(CaveatCode.PARTIAL_REPLAYS, count=integrity.partial_replays)
    claims: dict[Missing, list[Claim]] = {}
    for claim in Claim:
        if claim is Claim.STEPS and not integrity.steps:
            continue
        if (missing := integrity.explain(claim)) is not None:
            claims.setdefault(missing, []).append(claim)
    for missing, reasons in claims.items():
        yield make_caveat(
            CaveatCode.UNSUPPORTED_CLAIMS, claims=tuple(reasons), reason=missing.reason
        )


def _check_ranks(run: Run, traced_steps: tuple[Step, ...]) -> Iterator[Caveat]:
    share = compute_communication_share(run, traced_steps)
    if share > MUCH_COMMUNICATION:
        yield make_caveat(CaveatCode.COMMUNICATION, share=share)


def _check_pair(run: Run, baseline: Run) -> Iterator[Caveat]:
    environment, other = run.manifest.environment, baseline.manifest.environment
    for component, run_value, baseline_value in (
        ("GPU", environment.gpu_name, other.gpu_name),
        ("driver", environment.driver, other.driver),
        ("CUDA", environment.cuda_runtime, other.cuda_runtime),
        ("torch", environment.torch, other.torch),
        ("CPU", environment.cpu, other.cpu),
    ):
        if run_value != baseline_value:
            yield make_caveat(
                CaveatCode.ENVIRONMENT,
                component=component,
                value=run_value,
                baseline_value=baseline_value,
                baseline=baseline.name,
            )
    work, other_work = run.manifest.workload, baseline.manifest.workload
    if (work.factory, work.seed) != (other_work.factory, other_work.seed):
        yield make_caveat(
            CaveatCode.WORKLOAD, work=work, baseline_work=other_work, baseline=baseline.name
        )
    elif work.parameters != other_work.parameters:
        names = sorted({*work.parameters, *other_work.parameters})
        values = [
            (name, work.parameters.get(name), other_work.parameters.get(name)) for name in names
        ]
        differing = tuple(row for row in values if row[1] != row[2])
        yield make_caveat(CaveatCode.PARAMETERS, rows=differing, baseline=baseline.name)


def _check_uneven_steps(run: Run, figures: Mapping[str, MetricValue]) -> Iterator[Caveat]:
    mean, traced_ns = figures["recorded_mean"].value, figures["traced_step_time"].value
    # If the CPU runs ahead, single recorded steps are meaningless; profiled steps are complete.
    if (
        run.recording is None
        or mean is None
        or not traced_ns
        or traced_ns >= MIN_OBSERVER_EFFECT * mean
    ):
        return
    times = list_step_times(run)
    summary = summarise(times)
    long_count, share = find_long_steps(times)
    if summary is not None and share > MAX_LONG_STEP_SHARE:
        yield make_caveat(
            CaveatCode.UNEVEN_STEPS,
            long_count=long_count,
            count=len(times),
            share=share,
            mean=mean,
            median=summary.median,
            traced=traced_ns,
            has_engine=run.loop is not None and run.loop.engine is not None,
        )


def _check_recording(run: Run) -> Iterator[Caveat]:
    recording = run.recording
    if recording is None:
        return
    count = len(recording.step_ns)
    if not isinstance(compute_recorded_step(recording), Missing) and count < FEW_STEPS:
        yield make_caveat(CaveatCode.FEW_RECORDED_STEPS, count=count)
    for graph in recording.graphs:
        if graph.problem is not None:
            location = graph.captured_at[0] if graph.captured_at else None
            yield make_caveat(
                CaveatCode.CAPTURE_PROBLEM,
                graph=graph.graph,
                location=location,
                problem=graph.problem,
            )


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


class DeviceWork(Struct, frozen=True):
    """Work of one GPU; medians of the steps."""

    device: int
    kernels: float
    """Number of kernels per step."""
    busy_share: float
    """Fraction of the step with a busy GPU, 0 to 1."""


def measure_devices(trace: Trace, traced_steps: Sequence[Step]) -> tuple[DeviceWork, ...]:
    """Measure the work of each GPU in ``traced_steps``, by number."""
    device = get_column(trace.gpu, "device")
    numbers = np.unique(device)
    if len(numbers) < 2:
        return ()
    is_kernel = (trace.gpu["kind"] == "kernel").to_numpy()
    start, end = get_spans(trace.gpu)
    measured_devices = []
    for number in numbers.tolist():
        kernels, shares = [], []
        for step in traced_steps:
            rows = step.gpu_rows[device[step.gpu_rows] == number]
            kernels.append(int(is_kernel[rows].sum()))
            busy_ns = measure_span_union(step, start[rows], end[rows])
            shares.append(busy_ns / step.duration_ns if step.duration_ns else 0.0)
        measured_devices.append(
            DeviceWork(number, float(np.median(kernels)), float(np.median(shares)))
        )
    return tuple(measured_devices)
