"""Cached analysis results of opened experiments, shared by pages and routes."""

from __future__ import annotations

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.analysis.metrics.kernel_table import KernelTable, build_kernel_table
from graphviz_dash.analysis.metrics.program_step import get_recorded_step_ns
from graphviz_dash.analysis.metrics.run_metrics import (
    compute_clean_step_ns,
    compute_traced_slowdown,
)
from graphviz_dash.analysis.ranks.ranks import ModeRanks, compare_ranks
from graphviz_dash.analysis.replays.replays import (
    ReplayMatch,
    get_identities,
    match_replays,
    select_timed_replays,
)
from graphviz_dash.analysis.step_comparison.typical_step import TypicalStep, build_typical_step
from graphviz_dash.analysis.step_comparison.waterfall import Waterfall
from graphviz_dash.analysis.step_comparison.work_pairs import WorkPairs, pair_work
from graphviz_dash.analysis.trace.steps import Step, find_steps
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Experiment
from graphviz_dash.ui.state.store import COMPARISON, STORE, Extent, cache_result


def get_comparison(key: str) -> Comparison:
    """Return the comparison of the experiment's runs with the default baseline."""
    return STORE.derive(
        key,
        COMPARISON,
        lambda experiment: compare_runs(
            experiment,
            replays={run.name: get_replays(key, run.name) for run in experiment.runs},
            traced_steps=_get_all_steps(key, experiment),
        ),
    )


def get_comparison_without_traces(key: str) -> Comparison:
    """Return the comparison without data from the traces."""
    return STORE.derive(key, COMPARISON, compare_runs, Extent.NO_TRACES)


@cache_result("traced slowdowns")
def get_traced_slowdowns(key: str) -> dict[str, float]:
    """Return traced step time relative to clean step time, for runs with both."""
    return {
        run.name: effect
        for run in STORE.load_experiment_of_key(key).runs
        if (effect := compute_traced_slowdown(run, get_traced_steps(key, run.name))) is not None
    }


@cache_result("clean times")
def get_clean_times(key: str) -> dict[str, float]:
    """Return the median clean step time in ns, or the recorded step time, of runs with one."""
    return {
        run.name: time
        for run in STORE.load_experiment_of_key(key).runs
        if (time := compute_clean_step_ns(run) or get_recorded_step_ns(run)) is not None
    }


@cache_result("steps")
def get_traced_steps(key: str, run_name: str) -> tuple[Step, ...]:
    """Return the steps of a run's trace; empty without a trace."""
    trace = STORE.get_run(key, run_name).replay_trace
    return () if trace is None else find_steps(trace)


def _get_all_steps(key: str, experiment: Experiment) -> dict[str, tuple[Step, ...]]:
    return {run.name: get_traced_steps(key, run.name) for run in experiment.runs}


@cache_result("kernels")
def get_kernels(key: str) -> KernelTable:
    """Return the kernels of the runs side by side."""
    experiment, baseline = STORE.load_experiment_of_key(key), get_comparison(key).baseline
    return build_kernel_table(experiment, baseline, _get_all_steps(key, experiment))


def get_ranks(key: str) -> tuple[ModeRanks, ...]:
    """Return the ranks of each mode; empty for an experiment without ranks."""
    return STORE.derive(key, "ranks", compare_ranks)


@cache_result("replays")
def get_replays(key: str, run_name: str) -> ReplayMatch | None:
    """Return a run's matched replays; None without graphs or trace."""
    run = STORE.get_run(key, run_name)
    if run.replay_trace is None or not run.graphs:
        return None
    return match_replays(run.graphs, run.replay_trace, get_identities(run))


def has_replays(key: str, run_name: str) -> bool:
    """Return True if the result of :func:`get_replays` is cached or trivial."""
    run = STORE.get_run(key, run_name)
    return not run.graphs or run.replay_trace is None or STORE.has(key, ("replays", run_name))


@cache_result("pairs")
def get_work_pairs(key: str, first: str, second: str) -> WorkPairs | Missing:
    """Return the paired work of two runs' typical steps, or the reason it is unavailable."""
    compared = {run.name: run for run in get_comparison(key).runs}
    waterfall = compared[second].waterfall if second in compared else None
    if isinstance(waterfall, Waterfall) and waterfall.baseline == first:
        return waterfall.pairs
    works = [_get_step_work(key, name) for name in (first, second)]
    for name, work in zip((first, second), works, strict=True):
        if isinstance(work, Missing):
            return work.add_owner(name)
    before, after = (work for work in works if isinstance(work, TypicalStep))
    return pair_work(before, after)


@cache_result("work")
def _get_step_work(key: str, run_name: str) -> TypicalStep | Missing:
    """Return the work of a typical step, reusing the comparison if possible."""
    for compared in get_comparison(key).runs:
        equation = compared.waterfall
        if isinstance(equation, Waterfall) and run_name in (compared.name, equation.baseline):
            pairs = equation.pairs
            return pairs.after if run_name == compared.name else pairs.before
    run, steps = STORE.get_run(key, run_name), get_traced_steps(key, run_name)
    return build_typical_step(run, None, get_replays(key, run_name), steps)


@cache_result("timed")
def get_node_replays(key: str, run_name: str) -> ReplayMatch | None:
    """Return the replays behind node times, from the traced pass or the node-id pass."""
    run = STORE.get_run(key, run_name)
    return select_timed_replays(run, get_replays(key, run_name)) if run.graphs else None
