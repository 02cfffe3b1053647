"""Cached analysis of the graph families of opened experiments."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from graphviz_dash.analysis.loop.copied_sizes import can_infer_sizes
from graphviz_dash.analysis.loop.family_report import LoopReport, build_loop_report, has_many_graphs
from graphviz_dash.features.ladder.analysis.coverage import Coverage, build_coverage, select_family
from graphviz_dash.features.ladder.analysis.kernel_changes import KernelChange, find_kernel_changes
from graphviz_dash.features.ladder.analysis.ladder_advice import (
    LadderAdvice,
    LadderBasis,
    build_ladder_basis,
    recommend_ladder,
)
from graphviz_dash.features.ladder.analysis.ladder_inputs import build_ladder_data
from graphviz_dash.features.ladder.analysis.ladder_problem import Budget
from graphviz_dash.features.ladder.analysis.segments import SegmentedStep, divide_step
from graphviz_dash.ingest.load import add_replay_trace
from graphviz_dash.ingest.node_names import MIN_PROCESS_BYTES, compute_graph_bytes, load_node_names
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.ui.state.jobs import JOBS, Job
from graphviz_dash.ui.state.results import get_replays, get_traced_steps
from graphviz_dash.ui.state.store import STORE, Extent, cache_result

_CHANGES: Final = "kernel changes"


@cache_result("reports", Extent.OUTLINE)
def get_loop_reports(key: str) -> tuple[LoopReport, ...]:
    """Return the loops of runs that replay many graphs, most steps first.

    Does not read graphs; reads the trace only if it may contain real sizes.
    """
    reports = [
        build_loop_report(add_replay_trace(run) if can_infer_sizes(run.loop) else run)
        for run in STORE.load_experiment_of_key(key, Extent.OUTLINE).runs
        if run.recording and has_many_graphs(run.loop)
    ]
    loops = [report for report in reports if not isinstance(report, Missing)]
    return tuple(sorted(loops, key=lambda report: -report.steps_seen))


@cache_result("advice", Extent.OUTLINE)
def get_advice(key: str, run: int, family: int, budget: Budget) -> LadderAdvice | Missing:
    """Return the best ladder of a family, by index of its report and index in it."""
    basis = _get_basis(key, run, family)
    return basis if isinstance(basis, Missing) else recommend_ladder(basis, budget)


@cache_result("coverage", Extent.OUTLINE)
def get_coverage(key: str, run: int, family: int) -> Coverage | None:
    """Return sizes for requests above the largest graph. None without such requests."""
    basis = _get_basis(key, run, family)
    return None if isinstance(basis, Missing) else build_coverage(basis.data)


@cache_result("first family", Extent.OUTLINE)
def get_first_family(key: str, run: int) -> int:
    """Return the index of the family to show first."""
    report = get_loop_reports(key)[run]
    index = select_family(report).index
    return next(n for n, family in enumerate(report.families) if family.index == index)


@cache_result("basis", Extent.OUTLINE)
def _get_basis(key: str, run: int, family: int) -> LadderBasis | Missing:
    report = get_loop_reports(key)[run]
    data = build_ladder_data(report, report.families[family])
    return data if isinstance(data, Missing) else build_ladder_basis(data)


@cache_result(_CHANGES, Extent.OUTLINE)
def get_changes(key: str, run: int, family: int) -> tuple[KernelChange, ...]:
    """Return the kernel changes along the sizes; reads only node names.

    Raises:
        InputError: a graph cannot be read.
    """
    members = get_loop_reports(key)[run].families[family].members
    graphs = dict.fromkeys(graph for member in members for graph in member.member.graphs)
    return find_kernel_changes(members, load_node_names(_find_folder(key, run), [*graphs]))


def has_changes(key: str, run: int, family: int) -> bool:
    """Return True if the result of :func:`get_changes` is cached."""
    return STORE.has(key, (_CHANGES, run, family), Extent.OUTLINE)


def start_changes_job(key: str, run: int, family: int) -> Job | None:
    """Start a job for :func:`get_changes` of large graphs; None if they are small.

    Raises:
        InputError: the run's manifest cannot be read.
    """
    if compute_graph_bytes(_find_folder(key, run)) < MIN_PROCESS_BYTES:
        return None
    act = partial(get_changes, key, run, family)
    return JOBS.start((key, _CHANGES, run, family), [("Loading the graphs", act)])


def _find_folder(key: str, run: int) -> Path:
    name = get_loop_reports(key)[run].run
    runs = STORE.load_experiment_of_key(key, Extent.OUTLINE).runs
    return next(loop_run.path for loop_run in runs if loop_run.name == name)


@cache_result("segments")
def get_traced_segments(key: str, run_name: str) -> SegmentedStep | Missing:
    """Return a traced step as replays and eager work, or the reason for its absence."""
    run = STORE.get_run(key, run_name)
    trace, match = run.replay_trace, get_replays(key, run_name)
    if trace is None or match is None:
        return Missing(Fact.TRACED_STEPS, "the run has no trace of its steps")
    return divide_step(trace, get_traced_steps(key, run_name), match)
