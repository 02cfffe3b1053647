"""Preparation of a large graph before its first view, as a job in stages."""

from __future__ import annotations

from threading import Event
from typing import Final

from graphviz_dash.analysis.nodes.measured_graph import MeasuredGraph
from graphviz_dash.features.graph.drawing.folded import FoldedGraph, folded, timed, untimed
from graphviz_dash.features.graph.folding.fold import FoldBy
from graphviz_dash.features.graph.page.state.graphs import (
    GraphAddress,
    eager_nodes,
    graph_pair,
    graph_union,
    measured,
    nodes,
    whole,
    whole_without_times,
)
from graphviz_dash.features.graph.page.state.streams import graph_by_data, planned_streams
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Run
from graphviz_dash.progress import CancelledError
from graphviz_dash.ui.state.jobs import JOBS, Job, Standing, State, Task
from graphviz_dash.ui.state.results import node_replays
from graphviz_dash.ui.state.store import STORE, UnknownKeyError

LARGE: Final = 5_000
"""Number of nodes from which a page does not wait for an unprepared graph."""

_PATIENCE: Final = 60.0
"""Maximum wait per check of a job, in seconds."""

_AWAITED: Final[dict[GraphAddress, Event]] = {}


def next_view(address: GraphAddress) -> Event:
    """Return the event that the next view of the graph sets.

    A page sends its charts after this event. Otherwise they would keep the browser busy before the
    drawing has requested its view.
    """
    return _AWAITED.setdefault(address, Event())


def view_is_made(address: GraphAddress) -> None:
    """Wake the threads that wait for a view."""
    awaited = _AWAITED.pop(address, None)
    if awaited is not None:
        awaited.set()


def is_ready(of: GraphAddress, against: GraphAddress | None, by: FoldBy = FoldBy.ORDER) -> bool:
    """Return whether a view of the graph needs no preparation."""
    return STORE.has(of[0], _slot(of, against, by))


def prepared(
    of: GraphAddress, against: GraphAddress | None = None, by: FoldBy = FoldBy.ORDER
) -> FoldedGraph:
    """Return a graph, or two merged graphs, ready for views. A job prepares large graphs.

    Raises:
        UnknownKeyError: no such experiment, run or graph.
        InputError: an experiment cannot be read.
        CancelledError: the job was cancelled.
    """
    if not is_ready(of, against, by) and _size(of) >= LARGE:
        _done(JOBS.begin(_job(of, against, by), _tasks(of, against, by), again=True))
    return _folded(of, by) if against is None else _compared(of, against, by)


def drawable(
    of: GraphAddress, against: GraphAddress | None = None, by: FoldBy = FoldBy.ORDER
) -> FoldedGraph:
    """Return a graph as :func:`prepared` does, but a large unprepared graph without times, which is
    much faster."""
    if against is not None or is_ready(of, against, by) or _size(of) < LARGE:
        return prepared(of, against, by)
    _done(_begun(of, by))
    return _untimed(of, by)


def begin(of: GraphAddress, against: GraphAddress | None, by: FoldBy) -> None:
    """Start the preparation that :func:`drawable` waits for."""
    if against is None and not is_ready(of, against, by):
        _begun(of, by)


def standing(of: GraphAddress, against: GraphAddress | None, by: FoldBy = FoldBy.ORDER) -> Standing:
    """Return the progress of the preparation of a graph."""
    jobs = [JOBS.of(_job(of, against, by)), JOBS.of(_job(of, against, by, early=True))]
    started = [job for job in jobs if job is not None]
    running = next((job for job in started if not job.ended), None)
    if running is None:
        return started[0].standing if started else Standing(State.DONE, "", 1.0)
    return running.standing


def cancel(of: GraphAddress, against: GraphAddress | None, by: FoldBy = FoldBy.ORDER) -> Standing:
    """Cancel the preparation of a graph before its next stage. Finished stages are kept."""
    for early in (False, True):
        job = JOBS.of(_job(of, against, by, early=early))
        if job is not None:
            job.cancel()
    return standing(of, against, by)


def _begun(of: GraphAddress, by: FoldBy) -> Job:
    tasks: list[Task] = [
        ("Finding operators and source lines", lambda: whole_without_times(*of)),
        ("Folding", lambda: _untimed(of, by)),
    ]
    return JOBS.begin(_job(of, None, by, early=True), tasks, again=True)


def _done(job: Job) -> None:
    """Wait for the end of a job.

    Raises:
        CancelledError: the job was cancelled.
    """
    while (status := job.wait(_PATIENCE)).state is State.RUNNING:
        pass
    if status.state is State.CANCELLED:
        raise CancelledError


def _job(
    of: GraphAddress, against: GraphAddress | None, by: FoldBy, *, early: bool = False
) -> tuple[object, ...]:
    return ("graph", of, against, by, early)


def _size(of: GraphAddress) -> int:
    run = STORE.run(of[0], of[1])
    if of[2] not in {graph.id for graph in run.graphs}:
        raise UnknownKeyError(of[2])
    return nodes_of(run, of[2])


def _tasks(of: GraphAddress, against: GraphAddress | None, by: FoldBy) -> list[Task]:
    key, run_name, _ = of
    replays: Task = ("Matching replays to nodes", lambda: node_replays(key, run_name))
    origins: Task = ("Finding operators and source lines", lambda: nodes(*of))
    if against is None:
        return [
            ("Folding", lambda: _untimed(of, by)),
            replays,
            origins,
            ("Inserting child graphs", lambda: whole(*of)),
            ("Finding the critical path", lambda: measured(*of)),
            ("Adding times", lambda: _folded(of, by)),
        ]
    return [
        replays,
        origins,
        ("Finding operators of the earlier graph", lambda: nodes(*against)),
        ("Comparing the graphs", lambda: graph_pair(of, against)),
        ("Merging the graphs", lambda: graph_union(of, against)),
        ("Folding", lambda: _compared(of, against, by)),
    ]


def _slot(of: GraphAddress, against: GraphAddress | None, by: FoldBy) -> tuple[object, ...]:
    return ("folded", *of[1:], by) if against is None else ("folded", of, against, by)


def _untimed(of: GraphAddress, by: FoldBy) -> FoldedGraph:
    if by is FoldBy.DATA:
        return _folded(of, by)
    whole_graph = whole_without_times(*of)
    return STORE.derived(of[0], ("untimed", *of[1:], by), lambda _: untimed(whole_graph, by))


def _folded(of: GraphAddress, by: FoldBy) -> FoldedGraph:
    if by is FoldBy.DATA:
        return _by_data(of)
    drawn, whole_graph, times = _untimed(of, by), whole(*of), measured(*of)
    path = times if isinstance(times, MeasuredGraph) else None
    return STORE.derived(
        of[0],
        _slot(of, None, by),
        lambda _: timed(
            drawn, whole_graph, path, lambda: eager_nodes(*of), lambda: planned_streams(*of)
        ),
    )


def _by_data(of: GraphAddress) -> FoldedGraph:
    """Return a graph folded by data dependencies; as captured if they are unknown."""
    data = graph_by_data(*of)
    if isinstance(data, Missing):
        return _folded(of, FoldBy.ORDER)
    return STORE.derived(
        of[0],
        _slot(of, None, FoldBy.DATA),
        lambda _: folded(
            data.whole,
            data.measured,
            eager=lambda: eager_nodes(*of),
            streams=lambda: planned_streams(*of),
        ),
    )


def _compared(of: GraphAddress, against: GraphAddress, by: FoldBy) -> FoldedGraph:
    union = graph_union(of, against)
    return STORE.derived(
        of[0], _slot(of, against, by), lambda _: folded(union.whole, union=union, by=by)
    )


def nodes_of(run: Run, graph_id: str) -> int:
    """Count the nodes of a graph and its child graphs, without building anything."""
    by_id = {graph.id: graph for graph in run.graphs}
    names = [graph_id]
    for name in names:
        names += [body for node in by_id[name].nodes for body in node.bodies if body in by_id]
    return sum(len(by_id[name].nodes) for name in names)
