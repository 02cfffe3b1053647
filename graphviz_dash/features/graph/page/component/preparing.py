"""Preparation of a large graph before its first view, as a job in stages."""

from __future__ import annotations

from threading import Event
from typing import Final

from msgspec import Struct

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


class DrawnGraph(Struct, frozen=True):
    """A graph, or the union with an earlier one, folded for its drawing."""

    address: GraphAddress
    other_graph: GraphAddress | None = None
    fold_by: FoldCriterion = FoldCriterion.ORDER

    @property
    def slot(self) -> tuple[object, ...]:
        """Slot of the store."""
        if self.other_graph is None:
            return ("folded", *self.address[1:], self.fold_by)
        return ("folded", self.address, self.other_graph, self.fold_by)


def is_ready(graph: DrawnGraph) -> bool:
    """Return whether a view of the graph needs no preparation."""
    return STORE.has(graph.address[0], graph.slot)


def prepare_graph(graph: DrawnGraph) -> FoldedGraph:
    """Return a graph, or two merged graphs, ready for views. A job prepares large graphs.

    Raises:
        UnknownKeyError: no such experiment, run or graph.
        InputError: an experiment cannot be read.
        CancelledError: the job was cancelled.
    """
    if not is_ready(graph) and _count_graph_nodes(graph.address) >= LARGE_GRAPH_NODES:
        _wait_for_job(JOBS.start(_get_job_key(graph), _list_tasks(graph), restart=True))
    return _fold_with_times(graph) if graph.other_graph is None else _fold_union(graph)


def prepare_drawable_graph(graph: DrawnGraph) -> FoldedGraph:
    """Return a graph as :func:`prepare_graph` does, but a large unprepared one without times, which
    is much faster."""
    if (
        graph.other_graph is not None
        or is_ready(graph)
        or _count_graph_nodes(graph.address) < LARGE_GRAPH_NODES
    ):
        return prepare_graph(graph)
    _wait_for_job(_start_early_job(graph))
    return _fold_without_times(graph)


def start_preparation(graph: DrawnGraph) -> None:
    """Start the preparation for :func:`prepare_drawable_graph`."""
    if graph.other_graph is None and not is_ready(graph):
        _start_early_job(graph)


def get_preparation_status(graph: DrawnGraph) -> JobStatus:
    """Return the progress of the preparation."""
    jobs = [
        JOBS.get_job(_get_job_key(graph)),
        JOBS.get_job(_get_job_key(graph, early=True)),
    ]
    started = [job for job in jobs if job is not None]
    running = next((job for job in started if not job.is_ended), None)
    if running is None:
        return started[0].status if started else JobStatus(State.DONE, "", 1.0)
    return running.status


def cancel_preparation(graph: DrawnGraph) -> JobStatus:
    """Cancel the preparation before its next stage; finished stages are kept."""
    for early in (False, True):
        job = JOBS.get_job(_get_job_key(graph, early=early))
        if job is not None:
            job.cancel()
    return get_preparation_status(graph)


def _start_early_job(graph: DrawnGraph) -> Job:
    tasks: list[Task] = [
        ("Finding operators and source lines", lambda: get_graph_without_times(*graph.address)),
        ("Folding", lambda: _fold_without_times(graph)),
    ]
    return JOBS.start(_get_job_key(graph, early=True), tasks, restart=True)


def _wait_for_job(job: Job) -> None:
    """Wait for the end of a job; CancelledError if it was cancelled."""
    while (status := job.wait(_WAIT_S)).state is State.RUNNING:
        pass
    if status.state is State.CANCELLED:
        raise CancelledError


def _get_job_key(graph: DrawnGraph, *, early: bool = False) -> tuple[object, ...]:
    return ("graph", graph, early)


def _count_graph_nodes(address: GraphAddress) -> int:
    run = STORE.get_run(address[0], address[1])
    if address[2] not in {graph.id for graph in run.graphs}:
        raise UnknownKeyError(address[2])
    return count_nodes(run, address[2])


def _list_tasks(graph: DrawnGraph) -> list[Task]:
    address, other_graph = graph.address, graph.other_graph
    key, run_name, _ = address
    replays: Task = ("Matching replays to nodes", lambda: get_node_replays(key, run_name))
    origins: Task = ("Finding operators and source lines", lambda: get_nodes(*address))
    if other_graph is None:
        return [
            ("Folding", lambda: _fold_without_times(graph)),
            replays,
            origins,
            ("Inserting child graphs", lambda: get_whole_graph(*address)),
            ("Finding the critical path", lambda: get_measured_graph(*address)),
            ("Adding times", lambda: _fold_with_times(graph)),
        ]
    return [
        replays,
        origins,
        ("Finding operators of the earlier graph", lambda: get_nodes(*other_graph)),
        ("Comparing the graphs", lambda: get_graph_pair(address, other_graph)),
        ("Merging the graphs", lambda: get_graph_union(address, other_graph)),
        ("Folding", lambda: _fold_union(graph)),
    ]


def _fold_without_times(graph: DrawnGraph) -> FoldedGraph:
    if graph.fold_by is FoldCriterion.DATA:
        return _fold_with_times(graph)
    full_graph = get_graph_without_times(*graph.address)
    return STORE.derive(
        graph.address[0],
        ("untimed", *graph.address[1:], graph.fold_by),
        lambda _: fold_without_times(full_graph, graph.fold_by),
    )


def _fold_with_times(graph: DrawnGraph) -> FoldedGraph:
    address = graph.address
    if graph.fold_by is FoldCriterion.DATA:
        return _fold_by_data(graph)
    drawn, full_graph = _fold_without_times(graph), get_whole_graph(*address)
    times = get_measured_graph(*address)
    path = times if isinstance(times, MeasuredGraph) else None
    return STORE.derive(
        address[0],
        graph.slot,
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


def _fold_by_data(graph: DrawnGraph) -> FoldedGraph:
    """Fold by data dependencies; as captured if they are unknown."""
    address = graph.address
    data = get_data_graph(*address)
    if isinstance(data, Missing):
        return _fold_with_times(DrawnGraph(address))
    return STORE.derive(
        address[0],
        graph.slot,
        lambda _: build_folded_graph(
            data.full_graph,
            data.measured,
            eager=lambda: get_eager_nodes(*address),
            streams=lambda: get_planned_streams(*address),
            faults=lambda: get_fault_states(*address),
        ),
    )


def _fold_union(graph: DrawnGraph) -> FoldedGraph:
    assert graph.other_graph is not None
    union = get_graph_union(graph.address, graph.other_graph)
    return STORE.derive(
        graph.address[0],
        graph.slot,
        lambda _: build_folded_graph(union.graph, union=union, by=graph.fold_by),
    )


def count_nodes(run: Run, graph_id: str) -> int:
    """Count the nodes of a graph and its child graphs, without building anything."""
    by_id = {graph.id: graph for graph in run.graphs}
    return sum(len(graph.nodes) for graph in list_nested_graphs(by_id[graph_id], by_id))
