"""What makes a run's figures weak, in numbers, and what to do about it. Thresholds: registry.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphviz_dash.analysis.metrics.registry import (
    DRIFT,
    FEW_ITERATIONS,
    FEW_TRACED_STEPS,
    LARGE_REMAINDER,
    MUCH_COMMUNICATION,
    STRONG_OBSERVER,
    UNLIKE_OBSERVER,
    WIDE_SPREAD,
)
from graphviz_dash.analysis.metrics.run_metrics import Figure
from graphviz_dash.analysis.sample_statistics import summarise
from graphviz_dash.analysis.trace.collectives import communication
from graphviz_dash.analysis.trace.steps import Step, StepMethod
from graphviz_dash.model.graph import ConditionalParams, ConditionalType
from graphviz_dash.units import counted, format_ns, format_percent, format_ratio

if TYPE_CHECKING:
    from graphviz_dash.model.run import Run, WorkloadInfo
    from graphviz_dash.model.trace import TraceProblem


@dataclass(frozen=True)
class Weakness:
    """Why figures are weak. ``code`` is stable, ``metrics`` are the ids it concerns (empty: all).

    ``text`` has no full stop, for what follows it; ``advice`` is whole sentences, empty when there
    is nothing to do.
    """

    code: str
    text: str
    advice: str = ""
    metrics: tuple[str, ...] = ()


def weaknesses(
    run: Run, against: Run | None, figures: Mapping[str, Figure], taken: tuple[Step, ...]
) -> tuple[Weakness, ...]:
    """All weaknesses of ``run``'s figures, those of the headline first."""
    return (
        *_of_series(run),
        *_of_speedup(figures),
        *_of_equation(figures),
        *_of_traces(run, figures, taken),
        *_of_loops(run),
        *_of_ranks(run, taken),
        *(_of_pair(run, against) if against is not None else ()),
    )


def _of_series(run: Run) -> Iterator[Weakness]:
    if run.clean is None:
        return
    for metric, title, values in (
        ("step_time", "step time", [step.wall_ns for step in run.clean.steps]),
        ("step_interval", "back-to-back interval", list(run.clean.back_to_back_ns)),
    ):
        summary = summarise(values)
        if summary is None:
            continue
        count = len(values)
        if count < FEW_ITERATIONS:
            yield Weakness(
                "few-iterations",
                f"{title}: only {count} iterations",
                f"Collect with --iterations {max(200, FEW_ITERATIONS)}.",
                (metric,),
            )
            continue
        spread = summary.spread
        halves = [summarise(half) for half in (values[: count // 2], values[count // 2 :])]
        first, second = (half.median if half else 0.0 for half in halves)
        if abs(first - second) > DRIFT * summary.median:
            yield Weakness(
                "drift",
                f"{title}: the first half's median is {format_ns(first)}, the second's "
                f"{format_ns(second)}",
                "The machine changed while it was measured, or was still warming up: collect "
                f"again with --warmup {run.manifest.workload.warmup * 4}.",
                (metric,),
            )
        if summary.relative_spread > WIDE_SPREAD:
            yield Weakness(
                "wide-spread",
                f"{title}: p25 to p75 is {format_percent(summary.relative_spread)} of the median "
                f"({format_ns(spread.low)} to {format_ns(spread.high)}, {count} iterations)",
                "Collect again on a quiet machine; --iterations "
                f"{run.manifest.workload.iterations * 4} makes the median surer.",
                (metric,),
            )


def _of_speedup(figures: Mapping[str, Figure]) -> Iterator[Weakness]:
    for metric, title in (
        ("speedup", "speedup"),
        ("speedup_interval", "back-to-back speedup"),
    ):
        figure = figures[metric]
        spread = figure.spread
        if spread is None or spread.high is None or not spread.low <= 1 <= spread.high:
            continue
        yield Weakness(
            "no-difference",
            f"{title}: {figure.text} with a 95% interval of {format_ratio(spread.low)} to "
            f"{format_ratio(spread.high)}, which holds 1: the runs cannot be told apart",
            "More iterations narrow the interval.",
            (metric,),
        )


def _of_equation(figures: Mapping[str, Figure]) -> Iterator[Weakness]:
    rest, saving = figures["remainder"].value, figures["step_saving"].value
    own = figures["step_time"].value
    if rest is None or saving is None or own is None:
        return
    before = own + saving
    if before > 0 and abs(rest) > LARGE_REMAINDER * before:
        yield Weakness(
            "large-remainder",
            f"the traced passes leave {format_ns(abs(rest))} of the difference unexplained, "
            f"{format_percent(abs(rest) / before)} of the baseline's step",
            "The two passes did not run alike: collect again on a quiet machine.",
            ("remainder", "gaps_removed", "kernel_change"),
        )


def _of_loops(run: Run) -> Iterator[Weakness]:
    loops = sum(
        isinstance(node.params, ConditionalParams) and node.params.type is ConditionalType.WHILE
        for graph in run.graphs
        for node in graph.nodes
    )
    if loops and run.replay_trace is not None:
        yield Weakness(
            "loops",
            f"{counted(loops, 'While node')}: the profiler shows the last turn of each launch "
            "alone, so that counts and times of GPU work leave the others out",
            "Step times of the clean pass have all turns.",
            ("gpu_busy", "busy_fraction", "busy_of_clean", "kernels", "copies", "sets"),
        )


def _of_traces(
    run: Run, figures: Mapping[str, Figure], taken: tuple[Step, ...]
) -> Iterator[Weakness]:
    if taken and taken[0].method is StepMethod.WHOLE:
        yield Weakness("no-steps", "the traced pass marks no steps: no figures per step")
    elif taken and taken[0].method is StepMethod.PROFILER:
        yield Weakness(
            "profiler-steps",
            "the traced pass has ProfilerStep ranges only, which need not end synchronised",
        )
    if 0 < len(taken) < FEW_TRACED_STEPS:
        yield Weakness(
            "few-traced-steps",
            f"traced pass: only {len(taken)} steps",
            "Collect with --traced-iterations 20.",
            ("gpu_busy", "busy_fraction", "busy_of_clean", "observer_effect"),
        )
    observer = figures["observer_effect"].value
    if observer is not None and observer >= STRONG_OBSERVER:
        yield Weakness(
            "observer",
            f"a step under the profiler took {format_ratio(observer)} its clean time",
            "Read gaps and launch times in the timeline with care; durations of kernels are less "
            "distorted.",
            ("busy_fraction", "traced_step_time"),
        )
    if observer is not None and observer < UNLIKE_OBSERVER:
        yield Weakness(
            "passes-unlike",
            f"a step under the profiler took only {format_ratio(observer)} its clean time: the "
            "two passes did not run alike",
            "Collect again on a quiet machine; until then do not divide one by the other.",
            ("observer_effect", "busy_of_clean"),
        )
    fraction = figures["busy_of_clean"].value
    if fraction is not None and fraction > 1:
        yield Weakness(
            "busy-above-clean",
            f"GPU busy time of the traced pass is {format_percent(fraction)} of the clean step "
            "time: kernels ran slower under the profiler than without it"
            + ("" if run.manifest.rank is None else ", or waited longer for other ranks"),
            "",
            ("busy_of_clean",),
        )
    for problem in run.problems:
        yield Weakness(f"trace-{problem.code}", f"{_whose(run, problem)}{problem.text.rstrip('.')}")


def _whose(run: Run, problem: TraceProblem) -> str:
    """Of which of a run's two traces a problem is; nothing where both have it."""
    traces = {"traced pass: ": run.replay_trace, "capture pass: ": run.capture_trace}
    found = [name for name, one in traces.items() if one and problem in one.info.problems]
    return found[0] if len(found) == 1 and all(traces.values()) else ""


def communication_share(run: Run, taken: tuple[Step, ...]) -> float:
    """The part of a rank's traced GPU busy time that is communication, from 0; 0 where a run is no
    rank of several."""
    trace = run.replay_trace
    busy = sum(step.busy_ns for step in taken)
    if run.manifest.rank is None or trace is None or not busy:
        return 0.0
    return sum(one.total_ns for one in communication(trace, taken)) / busy


def _of_ranks(run: Run, taken: tuple[Step, ...]) -> Iterator[Weakness]:
    share = communication_share(run, taken)
    if share > MUCH_COMMUNICATION:
        yield Weakness(
            "communication",
            f"{format_percent(share)} of its GPU busy time is communication, in which it may only "
            "wait for other ranks",
            "The ranks side by side tell waiting from transfer.",
            ("gpu_busy", "busy_fraction", "kernel_change", "gaps_removed"),
        )


def _of_pair(run: Run, against: Run) -> Iterator[Weakness]:
    own, other = run.manifest.environment, against.manifest.environment
    for title, mine, theirs in (
        ("GPU", own.gpu_name, other.gpu_name),
        ("driver", own.driver, other.driver),
        ("CUDA", own.cuda_runtime, other.cuda_runtime),
        ("torch", own.torch, other.torch),
        ("CPU", own.cpu, other.cpu),
    ):
        if mine != theirs:
            yield Weakness(
                "environment",
                f"{title} is {mine or 'unknown'} here and {theirs or 'unknown'} in {against.name}",
                "Collect both modes on one machine with one set of software.",
            )
    mine_work, their_work = run.manifest.workload, against.manifest.workload
    if (mine_work.factory, mine_work.seed) != (their_work.factory, their_work.seed):
        yield Weakness(
            "workload",
            f"this is {_with_seed(mine_work)}, {against.name} is {_with_seed(their_work)}",
            "Compare runs of one workload.",
        )
    elif mine_work.parameters != their_work.parameters:
        names = sorted({*mine_work.parameters, *their_work.parameters})
        different = [
            f"{name} is {mine_work.parameters.get(name, 'absent')} here and "
            f"{their_work.parameters.get(name, 'absent')} in {against.name}"
            for name in names
            if mine_work.parameters.get(name) != their_work.parameters.get(name)
        ]
        yield Weakness(
            "workload", ", ".join(different), "Compare runs with the same parameters (--set)."
        )


def _with_seed(work: WorkloadInfo) -> str:
    seed = "a seed of its own" if work.seed is None else f"seed {work.seed}"
    return f"{work.factory} with {seed}"
