"""Cached analysis results of opened experiments, shared by pages and routes."""

from __future__ import annotations

from graphviz_dash.analysis.comparison.compare import compare
from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.analysis.metrics.kernel_table import KernelTable, kernel_table
from graphviz_dash.analysis.metrics.run_metrics import clean_step_ns, traced_slowdown
from graphviz_dash.analysis.ranks.ranks import ModeRanks, rank_comparison
from graphviz_dash.analysis.replays.replays import (
    ReplayMatch,
    identities_of,
    match_replays,
    timed_replays,
)
from graphviz_dash.analysis.step_comparison.typical_step import TypicalStep, typical_step
from graphviz_dash.analysis.step_comparison.waterfall import Waterfall
from graphviz_dash.analysis.step_comparison.work_pairs import WorkPairs, pair_work
from graphviz_dash.analysis.trace.steps import Step, steps
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Experiment
from graphviz_dash.ui.state.store import COMPARISON, STORE


def comparison(key: str) -> Comparison:
    """Return the comparison of the experiment's runs with the default baseline."""
    return STORE.derived(
        key,
        COMPARISON,
        lambda experiment: compare(
            experiment,
            replays={run.name: replays(key, run.name) for run in experiment.runs},
            traced_steps=_all_steps(key, experiment),
        ),
    )


def outcome(key: str) -> Comparison:
    """Return the comparison without data from the traces."""
    return STORE.derived_bare(key, COMPARISON, compare)


def traced_slowdowns(key: str) -> dict[str, float]:
    """Return traced step time relative to clean step time, for runs with both."""
    return STORE.derived(
        key,
        "traced slowdowns",
        lambda experiment: {
            run.name: effect
            for run in experiment.runs
            if (effect := traced_slowdown(run, traced_steps(key, run.name))) is not None
        },
    )


def clean_times(key: str) -> dict[str, float]:
    """Return the median clean step time in ns, for runs that have one."""
    return STORE.derived(
        key,
        "clean times",
        lambda experiment: {
            run.name: time for run in experiment.runs if (time := clean_step_ns(run)) is not None
        },
    )


def traced_steps(key: str, run_name: str) -> tuple[Step, ...]:
    """Return the steps of a run's trace; empty without a trace."""
    trace = STORE.run(key, run_name).replay_trace
    if trace is None:
        return ()
    return STORE.derived(key, ("steps", run_name), lambda _: steps(trace))


def _all_steps(key: str, experiment: Experiment) -> dict[str, tuple[Step, ...]]:
    return {run.name: traced_steps(key, run.name) for run in experiment.runs}


def kernels(key: str) -> KernelTable:
    """Return the kernels of the runs side by side."""
    baseline = comparison(key).baseline
    return STORE.derived(
        key,
        "kernels",
        lambda experiment: kernel_table(experiment, baseline, _all_steps(key, experiment)),
    )


def ranks(key: str) -> tuple[ModeRanks, ...]:
    """Return the ranks of each mode; empty for an experiment without ranks."""
    return STORE.derived(key, "ranks", rank_comparison)


def replays(key: str, run_name: str) -> ReplayMatch | None:
    """Return the matched replays of a run; None without graphs or trace."""
    run = STORE.run(key, run_name)
    trace = run.replay_trace
    if trace is None or not run.graphs:
        return None
    return STORE.derived(
        key, ("replays", run_name), lambda _: match_replays(run.graphs, trace, identities_of(run))
    )


def replays_known(key: str, run_name: str) -> bool:
    """Return True if the result of :func:`replays` is cached or trivial."""
    run = STORE.run(key, run_name)
    return not run.graphs or run.replay_trace is None or STORE.has(key, ("replays", run_name))


def work_pairs(key: str, first: str, second: str) -> WorkPairs | Missing:
    """Return the paired work of two runs' typical steps, or the reason it is unavailable."""
    compared = {run.name: run for run in comparison(key).runs}
    waterfall = compared[second].waterfall if second in compared else None
    if isinstance(waterfall, Waterfall) and waterfall.baseline == first:
        return waterfall.pairs
    works = [_step_work(key, name) for name in (first, second)]
    for name, work in zip((first, second), works, strict=True):
        if isinstance(work, Missing):
            return work.of(name)
    before, after = (work for work in works if isinstance(work, TypicalStep))
    return STORE.derived(key, ("pairs", first, second), lambda _: pair_work(before, after))


def _step_work(key: str, run_name: str) -> TypicalStep | Missing:
    """Return the work of a run's typical step, reusing the comparison if possible."""
    for compared in comparison(key).runs:
        equation = compared.waterfall
        if isinstance(equation, Waterfall) and run_name in (compared.name, equation.baseline):
            pairs = equation.pairs
            return pairs.after if run_name == compared.name else pairs.before
    run = STORE.run(key, run_name)
    return STORE.derived(
        key,
        ("work", run_name),
        lambda _: typical_step(run, None, replays(key, run_name), traced_steps(key, run_name)),
    )


def node_replays(key: str, run_name: str) -> ReplayMatch | None:
    """Return the replays behind node times, from the traced pass or the node-id pass."""
    run = STORE.run(key, run_name)
    traced = replays(key, run_name)
    if not run.graphs:
        return None
    return STORE.derived(key, ("timed", run_name), lambda _: timed_replays(run, traced))
