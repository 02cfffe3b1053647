"""Traced passes of an experiment: steps, typical steps and waterfalls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from msgspec import Struct

from graphviz_dash import progress
from graphviz_dash.analysis.absence import explain_missing
from graphviz_dash.analysis.metrics.graph_coverage import Coverage, compute_coverage
from graphviz_dash.analysis.metrics.low_confidence import count_while_nodes
from graphviz_dash.analysis.metrics.run_selection import get_family
from graphviz_dash.analysis.ranks.ranks import group_rank_families
from graphviz_dash.analysis.ranks.waits import RankWaits, compute_rank_waits
from graphviz_dash.analysis.step_comparison.clean_step_model import model_step
from graphviz_dash.analysis.step_comparison.time_by_category import (
    RankWaitTime,
    TimeByCategory,
    compute_time_by_category,
    compute_traced_wait_ns,
)
from graphviz_dash.analysis.step_comparison.typical_step import TypicalStep, build_typical_step
from graphviz_dash.analysis.step_comparison.waterfall import (
    Waterfall,
    build_waterfall,
    find_collective_arrivals,
)
from graphviz_dash.analysis.trace.integrity import (
    TraceIntegrity,
    assess_integrity,
    select_complete_steps,
)
from graphviz_dash.analysis.trace.steps import Step, find_steps
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.units import format_count

if TYPE_CHECKING:
    from graphviz_dash.analysis.metrics.run_metrics import MetricValue
    from graphviz_dash.analysis.replays.replays import ReplayMatch
    from graphviz_dash.model.run import Experiment, Run

TracedSteps: TypeAlias = Mapping[str, tuple[Step, ...]]
"""Traced steps by run name."""

MatchedReplays: TypeAlias = "Mapping[str, ReplayMatch | None]"
"""Matched replays by run name; None for runs without graphs or a trace."""


class TracedWork(Struct, frozen=True):
    """Traced steps of an experiment's runs."""

    steps: TracedSteps
    """Steps by run name; empty without a trace."""
    complete: Mapping[str, tuple[Step, ...] | Missing]
    """Steps with all their GPU work by run name, for runs with a trace."""
    integrity: Mapping[str, TraceIntegrity]
    """Completeness of the trace by run name, for runs with a trace."""
    typical: Mapping[str, TypicalStep | Missing]
    """Typical step by run name; empty if nothing is compared."""
    last_arrivals: Mapping[str, dict[int, int] | None]
    """Arrival of the last rank at each collective, by mode, in ns; None if unknown."""
    waits: Mapping[str, RankWaits]
    """Wait times of collectives, by name of runs with other ranks."""

    def compute_coverage(self, run: Run) -> Coverage | Missing:
        """Compute the share of the traced steps of ``run`` that ran from graphs."""
        if not run.mode.captures_graphs:
            return explain_missing(run, Fact.GRAPHS)
        if run.replay_trace is None:
            return explain_missing(run, Fact.TRACED_PASS)
        steps = self.complete[run.name]
        if isinstance(steps, Missing):
            return steps
        coverage = compute_coverage(run.replay_trace, steps)
        if isinstance(coverage, Missing) or coverage.nodes or run.recording is None:
            return coverage
        replays = sum(graph.replays for graph in run.recording.graphs)
        if not replays:
            return coverage
        return Missing(
            Fact.GRAPH_STEPS,
            "the traced window has only steps without a graph; outside it, the program replayed "
            f"graphs {format_count(replays)} times",
        )

    def divide_time(
        self, run: Run, step: MetricValue, figures: Mapping[str, MetricValue], *, untimed: bool
    ) -> TimeByCategory | Missing:
        """Break down ``step`` by category, or the traced step time if ``untimed``."""
        busy, traced = figures["gpu_busy"], figures["traced_step_time"]
        divided = traced if untimed else step
        if divided.value is None or busy.value is None or run.replay_trace is None:
            missing = busy.missing if divided.missing is None else step.missing or divided.missing
            return missing or explain_missing(run, Fact.TRACED_PASS)
        steps = self.complete[run.name]
        if isinstance(steps, Missing):
            return steps
        waiting = self._get_rank_wait(run)
        return compute_time_by_category(
            divided.value,
            run.replay_trace,
            steps,
            waiting,
            profiled=untimed,
            has_loops=count_while_nodes(run) > 0,
        )

    def _get_rank_wait(self, run: Run) -> RankWaitTime | None:
        """Compute the wait for other ranks: modelled for a clean step, else as traced."""
        waits, typical = self.waits.get(run.name), self.typical.get(run.name)
        if waits is None or run.replay_trace is None:
            return None
        arrivals = self.last_arrivals.get(get_family(run))
        if isinstance(typical, TypicalStep) and arrivals is not None and run.clean is not None:
            launches = [step.launch_cpu_ns for step in run.clean.steps]
            model = model_step(typical, float(np.median(launches)), 0, None, arrivals)
            return RankWaitTime(waits.wait_ns, float(model.ranks.sum()))
        traced = compute_traced_wait_ns(run.replay_trace, self.steps[run.name], waits.wait_ns)
        return RankWaitTime(waits.wait_ns, traced)

    def compute_waterfall(self, run: Run, baseline: Run | Missing) -> Waterfall | Missing:
        """Break down the difference between ``run`` and its baseline ``against``."""
        if isinstance(baseline, Missing):
            return baseline
        returns = [
            work.return_ns for work in self.typical.values() if not isinstance(work, Missing)
        ]
        return build_waterfall(
            run,
            baseline,
            self.typical[run.name],
            self.typical[baseline.name],
            return_ns=min(returns, default=0),
            latest_arrivals=(
                self.last_arrivals.get(get_family(baseline)),
                self.last_arrivals.get(get_family(run)),
            ),
        )


def collect_traced_work(
    experiment: Experiment,
    replays: MatchedReplays,
    traced_steps: TracedSteps,
    *,
    compared: bool,
) -> TracedWork:
    """Collect the traced work of the runs of ``experiment``; typical steps only if ``compared``."""
    steps_by_run = {
        run.name: traced_steps.get(run.name) or _find_steps(run) for run in experiment.runs
    }
    integrity = {
        run.name: assess_integrity(run.replay_trace, steps_by_run[run.name])
        for run in experiment.runs
        if run.replay_trace is not None
    }
    complete = {
        run.name: select_complete_steps(
            run.replay_trace, steps_by_run[run.name], integrity[run.name]
        )
        for run in experiment.runs
        if run.replay_trace is not None
    }
    if not compared:
        return TracedWork(steps_by_run, complete, integrity, {}, {}, {})
    waits = compute_rank_waits(experiment)
    typical: dict[str, TypicalStep | Missing] = {}
    for number, run in enumerate(experiment.runs):
        with progress.report_subtask(number, 2 * len(experiment.runs)):
            steps = complete.get(run.name, ())
            if isinstance(steps, Missing):
                typical[run.name] = steps
                continue
            typical[run.name] = build_typical_step(
                run, waits.get(run.name), replays.get(run.name), steps
            )
    last_arrivals = {
        name: find_collective_arrivals([(run, typical[run.name]) for run in ranks])
        for name, ranks in group_rank_families(experiment).items()
    }
    return TracedWork(steps_by_run, complete, integrity, typical, last_arrivals, waits)


def _find_steps(run: Run) -> tuple[Step, ...]:
    return find_steps(run.replay_trace) if run.replay_trace is not None else ()
