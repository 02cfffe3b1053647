"""Preparation of a large graph before its first view, as a job in stages."""

from __future__ import annotations

from threading import Event
from typing import Final

from graphviz_dash.analysis.graph.nesting import list_nested_graphs
from graphviz_dash.analysis.nodes.measured_graph import MeasuredGraph
from graphviz_dash.features.graph.drawing.folded import (
    FoldedGraph,
    add_times,
    build_folded_graph,
    fold_without_times,
)
from graphviz_dash.features.graph.folding.fold import FoldCriterion
from graphviz_dash.features.graph.page.state.efficiency import get_limit_shares
from graphviz_dash.features.graph.page.state.graphs import (
    GraphAddress,
    get_eager_nodes,
    get_fault_states,
    get_graph_pair,
    get_graph_union,
    get_graph_without_times,
    get_measured_graph,
    get_nodes,
    get_whole_graph,
)
from graphviz_dash.features.graph.page.state.streams import get_data_graph, get_planned_streams
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Run
from graphviz_dash.progress import CancelledError
from graphviz_dash.ui.state.jobs import JOBS, Job, JobStatus, State, Task
from graphviz_dash.ui.state.results import get_node_replays
from graphviz_dash.ui.state.store import STORE, UnknownKeyError

LARGE_GRAPH_NODES: Final = 5_000
"""Nodes from which a page does not wait for an unprepared graph."""

_WAIT_S: Final = 60.0

_VIEW_EVENTS: Final[dict[GraphAddress, Event]] = {}


def get_view_event(address: GraphAddress) -> Event:
    """Return the event that the next view of the graph sets.

    A page sends its charts after it; otherwise they would keep the browser busy before the drawing
    has requested its view.
    """
    return _VIEW_EVENTS.setdefault(address, Event())


def signal_view(address: GraphAddress) -> None:
    """Wake the threads that wait for a view."""
    awaited = _VIEW_EVENTS.pop(address, None)
    if awaited is not None:
        awaited.set()


def is_ready(
    address: GraphAddress,
    other_graph: GraphAddress | None,
    fold_by: FoldCriterion = FoldCriterion.ORDER,
) -> bool:
    """Return whether a view of the graph needs no preparation."""
    return STORE.has(address[0], _get_slot(address, other_graph, fold_by))


def prepare_graph(
    address: GraphAddress,
    other_graph: GraphAddress | None = None,
    fold_by: FoldCriterion = FoldCriterion.ORDER,
) -> FoldedGraph:
    """Return a graph, or two merged graphs, ready for views. A job prepares large graphs.

    Raises:
        UnknownKeyError: no such experiment, run or graph.
        InputError: an experiment cannot be read.
        CancelledError: the job was cancelled.
    """
    if (
        not is_ready(address, other_graph, fold_by)
        and _count_graph_nodes(address) >= LARGE_GRAPH_NODES
    ):
        _wait_for_job(
            JOBS.start(
                _get_job_key(address, other_graph, fold_by),
                _list_tasks(address, other_graph, fold_by),
                restart=True,
            )
        )
    return (
        _fold_with_times(address, fold_by)
        if other_graph is None
        else _fold_union(address, other_graph, fold_by)
    )


def prepare_drawable_graph(
    address: GraphAddress,
    other_graph: GraphAddress | None = None,
    fold_by: FoldCriterion = FoldCriterion.ORDER,
) -> FoldedGraph:
    """Return a graph as :func:`prepare_graph` does, but a large unprepared one without times, which
    is much faster."""
    if (
        other_graph is not None
        or is_ready(address, other_graph, fold_by)
        or _count_graph_nodes(address) < LARGE_GRAPH_NODES
    ):
        return prepare_graph(address, other_graph, fold_by)
    _wait_for_job(_start_early_job(address, fold_by))
    return _fold_without_times(address, fold_by)


def start_preparation(
    address: GraphAddress, other_graph: GraphAddress | None, fold_by: FoldCriterion
) -> None:
    """Start the preparation for :func:`prepare_drawable_graph`."""
    if other_graph is None and not is_ready(address, other_graph, fold_by):
        _start_early_job(address, fold_by)


def get_preparation_status(
    address: GraphAddress,
    other_graph: GraphAddress | None,
    fold_by: FoldCriterion = FoldCriterion.ORDER,
) -> JobStatus:
    """Return the progress of the preparation."""
    jobs = [
        JOBS.get_job(_get_job_key(address, other_graph, fold_by)),
        JOBS.get_job(_get_job_key(address, other_graph, fold_by, early=True)),
    ]
    started = [job for job in jobs if job is not None]
    running = next((job for job in started if not job.is_ended), None)
    if running is None:
        return started[0].status if started else JobStatus(State.DONE, "", 1.0)
    return running.status


def cancel_preparation(
    address: GraphAddress,
    other_graph: GraphAddress | None,
    fold_by: FoldCriterion = FoldCriterion.ORDER,
) -> JobStatus:
    """Cancel the preparation before its next stage; finished stages are kept."""
    for early in (False, True):
        job = JOBS.get_job(_get_job_key(address, other_graph, fold_by, early=early))
        if job is not None:
            job.cancel()
    return get_preparation_status(address, other_graph, fold_by)


def _start_early_job(address: GraphAddress, fold_by: FoldCriterion) -> Job:
    tasks: list[Task] = [
        ("Finding operators and source lines", lambda: get_graph_without_times(*address)),
        ("Folding", lambda: _fold_without_times(address, fold_by)),
    ]
    return JOBS.start(_get_job_key(address, None, fold_by, early=True), tasks, restart=True)


def _wait_for_job(job: Job) -> None:
    """Wait for the end of a job; CancelledError if it was cancelled."""
    while (status := job.wait(_WAIT_S)).state is State.RUNNING:
        pass
    if status.state is State.CANCELLED:
        raise CancelledError


def _get_job_key(
    address: GraphAddress,
    other_graph: GraphAddress | None,
    fold_by: FoldCriterion,
    *,
    early: bool = False,
) -> tuple[object, ...]:
    return ("graph", address, other_graph, fold_by, early)


def _count_graph_nodes(address: GraphAddress) -> int:
    run = STORE.get_run(address[0], address[1])
    if address[2] not in {graph.id for graph in run.graphs}:
        raise UnknownKeyError(address[2])
    return count_nodes(run, address[2])


def _list_tasks(
    address: GraphAddress, other_graph: GraphAddress | None, fold_by: FoldCriterion
) -> list[Task]:
    key, run_name, _ = address
    replays: Task = ("Matching replays to nodes", lambda: get_node_replays(key, run_name))
    origins: Task = ("Finding operators and source lines", lambda: get_nodes(*address))
    if other_graph is None:
        return [
            ("Folding", lambda: _fold_without_times(address, fold_by)),
            replays,
            origins,
            ("Inserting child graphs", lambda: get_whole_graph(*address)),
            ("Finding the critical path", lambda: get_measured_graph(*address)),
            ("Adding times", lambda: _fold_with_times(address, fold_by)),
        ]
    return [
        replays,
        origins,
        ("Finding operators of the earlier graph", lambda: get_nodes(*other_graph)),
        ("Comparing the graphs", lambda: get_graph_pair(address, other_graph)),
        ("Merging the graphs", lambda: get_graph_union(address, other_graph)),
        ("Folding", lambda: _fold_union(address, other_graph, fold_by)),
    ]


def _get_slot(
    address: GraphAddress, other_graph: GraphAddress | None, fold_by: FoldCriterion
) -> tuple[object, ...]:
    return (
        ("folded", *address[1:], fold_by)
        if other_graph is None
        else ("folded", address, other_graph, fold_by)
    )


def _fold_without_times(address: GraphAddress, fold_by: FoldCriterion) -> FoldedGraph:
    if fold_by is FoldCriterion.DATA:
        return _fold_with_times(address, fold_by)
    full_graph = get_graph_without_times(*address)
    return STORE.derive(
        address[0],
        ("untimed", *address[1:], fold_by),
        lambda _: fold_without_times(full_graph, fold_by),
    )


def _fold_with_times(address: GraphAddress, fold_by: FoldCriterion) -> FoldedGraph:
    if fold_by is FoldCriterion.DATA:
        return _fold_by_data(address)
    drawn, full_graph, times = (
        _fold_without_times(address, fold_by),
        get_whole_graph(*address),
        get_measured_graph(*address),
    )
    path = times if isinstance(times, MeasuredGraph) else None
    return STORE.derive(
        address[0],
        _get_slot(address, None, fold_by),
        lambda _: add_times(
            drawn,
            full_graph,
            path,
            lambda: get_eager_nodes(*address),
            lambda: get_planned_streams(*address),
            lambda: get_limit_shares(*address),
            lambda: get_fault_states(*address),
        ),
    )


def _fold_by_data(address: GraphAddress) -> FoldedGraph:
    """Fold by data dependencies; as captured if they are unknown."""
    data = get_data_graph(*address)
    if isinstance(data, Missing):
        return _fold_with_times(address, FoldCriterion.ORDER)
    return STORE.derive(
        address[0],
        _get_slot(address, None, FoldCriterion.DATA),
        lambda _: build_folded_graph(
            data.full_graph,
            data.measured,
            eager=lambda: get_eager_nodes(*address),
            streams=lambda: get_planned_streams(*address),
            faults=lambda: get_fault_states(*address),
        ),
    )


def _fold_union(
    address: GraphAddress, other_graph: GraphAddress, fold_by: FoldCriterion
) -> FoldedGraph:
    union = get_graph_union(address, other_graph)
    return STORE.derive(
        address[0],
        _get_slot(address, other_graph, fold_by),
        lambda _: build_folded_graph(union.graph, union=union, by=fold_by),
    )


def count_nodes(run: Run, graph_id: str) -> int:
    """Count the nodes of a graph and its child graphs, without building anything."""
    by_id = {graph.id: graph for graph in run.graphs}
    return sum(len(graph.nodes) for graph in list_nested_graphs(by_id[graph_id], by_id))
