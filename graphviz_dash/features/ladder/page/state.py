"""Cached analysis of the graph families of opened experiments."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from graphviz_dash.analysis.loop.copied_sizes import copies_may_tell
from graphviz_dash.analysis.loop.family_report import LoopReport, has_many_graphs, loop_report
from graphviz_dash.features.ladder.analysis.kernel_changes import KernelChange, kernel_changes
from graphviz_dash.features.ladder.analysis.ladder_advice import (
    LadderAdvice,
    LadderBasis,
    advise,
    ladder_basis,
)
from graphviz_dash.features.ladder.analysis.ladder_inputs import ladder_data
from graphviz_dash.features.ladder.analysis.ladder_problem import Budget
from graphviz_dash.features.ladder.analysis.segments import SegmentedStep, segmented_step
from graphviz_dash.ingest.load import with_replay_trace
from graphviz_dash.ingest.node_names import LARGE_BYTES, graph_bytes, node_names
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.ui.state.jobs import JOBS, Job
from graphviz_dash.ui.state.results import replays, traced_steps
from graphviz_dash.ui.state.store import STORE


def loop_reports(key: str) -> tuple[LoopReport, ...]:
    """Return the loops of runs that replay many graphs, most steps first.

    Built without reading the graphs. The trace is read only if it may contain real sizes.
    """
    runs = STORE.loops(key)

    def build() -> tuple[LoopReport, ...]:
        reports = [
            loop_report(with_replay_trace(run) if copies_may_tell(run.loop) else run)
            for run in runs
            if has_many_graphs(run.loop)
        ]
        loops = [report for report in reports if not isinstance(report, Missing)]
        return tuple(sorted(loops, key=lambda report: -report.steps_seen))

    return STORE.derived_loops(key, "reports", build)


def advice(key: str, run: int, family: int, budget: Budget) -> LadderAdvice | Missing:
    """Return the best ladder of a family, by index of its report and index in it."""
    basis = _basis(key, run, family)
    if isinstance(basis, Missing):
        return basis
    return STORE.derived_loops(key, ("advice", run, family, budget), lambda: advise(basis, budget))


def _basis(key: str, run: int, family: int) -> LadderBasis | Missing:
    report = loop_reports(key)[run]

    def build() -> LadderBasis | Missing:
        data = ladder_data(report, report.families[family])
        return data if isinstance(data, Missing) else ladder_basis(data)

    return STORE.derived_loops(key, ("basis", run, family), build)


def changes(key: str, run: int, family: int) -> tuple[KernelChange, ...]:
    """Return the kernel changes along the sizes of a family; reads only the node names of its
    graphs.


    Raises:
        InputError: a graph cannot be read.
    """
    report = loop_reports(key)[run]
    members = report.families[family].members

    def build() -> tuple[KernelChange, ...]:
        graphs = dict.fromkeys(graph for member in members for graph in member.member.graphs)
        return kernel_changes(members, node_names(_folder(key, run), [*graphs]))

    return STORE.derived_loops(key, _changes_slot(run, family), build)


def changes_known(key: str, run: int, family: int) -> bool:
    """Return True if the result of :func:`changes` is cached."""
    return STORE.has_of_loops(key, _changes_slot(run, family))


def changes_job(key: str, run: int, family: int) -> Job | None:
    """Start a job that computes :func:`changes` for large graphs; None if they are small.


    Raises:
        InputError: the run's manifest cannot be read.
    """
    if graph_bytes(_folder(key, run)) < LARGE_BYTES:
        return None
    act = partial(changes, key, run, family)
    return JOBS.begin((key, *_changes_slot(run, family)), [("Loading the graphs", act)])


def _changes_slot(run: int, family: int) -> tuple[str, int, int]:
    return ("kernel changes", run, family)


def _folder(key: str, run: int) -> Path:
    name = loop_reports(key)[run].run
    return next(loop_run.path for loop_run in STORE.loops(key) if loop_run.name == name)


def traced_segments(key: str, run_name: str) -> SegmentedStep | Missing:
    """Return a traced step as replays and the eager work between them, or the reason for its
    absence.
    """
    run = STORE.run(key, run_name)
    trace, match = run.replay_trace, replays(key, run_name)
    if trace is None or match is None:
        return Missing(Fact.TRACED_STEPS, "the run has no trace of its steps")
    return STORE.derived(
        key,
        ("segments", run_name),
        lambda _: segmented_step(trace, traced_steps(key, run_name), match),
    )
