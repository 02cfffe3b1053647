"""What the traced passes of an experiment say of its runs: their steps, the typical one of each,
and the equation of two of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from msgspec import Struct

from graphviz_dash import progress
from graphviz_dash.analysis.absence import why_missing
from graphviz_dash.analysis.metrics.graph_coverage import Coverage, coverage
from graphviz_dash.analysis.metrics.run_selection import family
from graphviz_dash.analysis.ranks.ranks import families
from graphviz_dash.analysis.ranks.waits import RankWaits, rank_waits
from graphviz_dash.analysis.step_comparison.clean_step_model import model_step
from graphviz_dash.analysis.step_comparison.time_by_category import (
    TimeByCategory,
    Waiting,
    time_by_category,
    traced_wait_ns,
)
from graphviz_dash.analysis.step_comparison.typical_step import TypicalStep, typical_step
from graphviz_dash.analysis.step_comparison.waterfall import (
    Waterfall,
    collective_arrivals,
    waterfall,
)
from graphviz_dash.analysis.trace.steps import Step, steps
from graphviz_dash.model.absence import Fact, Missing

if TYPE_CHECKING:
    from graphviz_dash.analysis.metrics.run_metrics import Figure
    from graphviz_dash.analysis.replays.replays import ReplayMatch
    from graphviz_dash.model.run import Experiment, Run

TracedSteps: TypeAlias = Mapping[str, tuple[Step, ...]]
"""All traced steps of runs, by their names."""

MatchedReplays: TypeAlias = "Mapping[str, ReplayMatch | None]"
"""The matched replays of runs, by their names; None for those without graphs or a trace."""


class TracedWork(Struct, frozen=True):
    """The traced steps of an experiment's runs."""

    steps: TracedSteps
    """All steps of each run, by its name; none without a trace."""
    typical: Mapping[str, TypicalStep | Missing]
    """The typical step of each run, by its name; none where nothing is compared."""
    last_arrivals: Mapping[str, dict[int, int] | None]
    """By mode when the last of its ranks arrives at each of their collectives, in ns; None where
    that is not known."""
    waits: Mapping[str, RankWaits]
    """How long collectives waited, by the names of runs with other ranks."""

    def coverage(self, run: Run) -> Coverage | Missing:
        """What of the traced steps of ``run`` ran from graphs."""
        if not run.mode.captures_graphs:
            return why_missing(run, Fact.GRAPHS)
        if run.replay_trace is None:
            return why_missing(run, Fact.TRACED_PASS)
        return coverage(run.replay_trace, self.steps[run.name])

    def time_by_category(
        self, run: Run, step: Figure, figures: Mapping[str, Figure], *, untimed: bool
    ) -> TimeByCategory | Missing:
        """Where the time of a step goes; ``step`` is the run's step time without a profiler among
        its ``figures``. Where no run was timed without one (``untimed``) it is the traced step that
        is divided."""
        busy, traced = figures["gpu_busy"], figures["traced_step_time"]
        whole = traced if untimed else step
        if whole.value is None or busy.value is None or run.replay_trace is None:
            lacking = busy.missing if whole.missing is None else step.missing or whole.missing
            return lacking or why_missing(run, Fact.TRACED_PASS)
        waiting = self._waiting(run)
        return time_by_category(
            whole.value, run.replay_trace, self.steps[run.name], waiting, profiled=untimed
        )

    def _waiting(self, run: Run) -> Waiting | None:
        """The run's waiting for other ranks: in a clean step as modelled, else as traced."""
        waits, work = self.waits.get(run.name), self.typical.get(run.name)
        if waits is None or run.replay_trace is None:
            return None
        last = self.last_arrivals.get(family(run))
        if isinstance(work, TypicalStep) and last is not None and run.clean is not None:
            launches = [step.launch_cpu_ns for step in run.clean.steps]
            model = model_step(work, float(np.median(launches)), 0, None, last)
            return Waiting(waits.waited, float(model.ranks.sum()))
        traced = traced_wait_ns(run.replay_trace, self.steps[run.name], waits.waited)
        return Waiting(waits.waited, traced)

    def equation(self, run: Run, against: Run | Missing) -> Waterfall | Missing:
        """Where the difference of ``run`` to its baseline ``against`` went."""
        if isinstance(against, Missing):
            return against
        returns = [
            work.return_ns for work in self.typical.values() if not isinstance(work, Missing)
        ]
        return waterfall(
            run,
            against,
            self.typical[run.name],
            self.typical[against.name],
            return_ns=min(returns, default=0),
            last=(self.last_arrivals.get(family(against)), self.last_arrivals.get(family(run))),
        )


def traced_work(
    experiment: Experiment,
    replays: MatchedReplays,
    traced_steps: TracedSteps,
    *,
    compared: bool,
) -> TracedWork:
    """The traced work of the runs of ``experiment``; of their typical steps only where they are
    ``compared``. ``replays`` and ``traced_steps`` are by name what was computed before."""
    every = {run.name: traced_steps.get(run.name) or _steps(run) for run in experiment.runs}
    if not compared:
        return TracedWork(every, {}, {}, {})
    waits = rank_waits(experiment)
    typical: dict[str, TypicalStep | Missing] = {}
    for number, run in enumerate(experiment.runs):
        with progress.subtask(number, 2 * len(experiment.runs)):
            typical[run.name] = typical_step(
                run, waits.get(run.name), replays.get(run.name), every[run.name]
            )
    last = {
        name: collective_arrivals([(run, typical[run.name]) for run in ranks])
        for name, ranks in families(experiment).items()
    }
    return TracedWork(every, typical, last, waits)


def _steps(run: Run) -> tuple[Step, ...]:
    return steps(run.replay_trace) if run.replay_trace is not None else ()
