"""The work before the first view of a large graph: a job in stages, told and cancelled as such."""

from __future__ import annotations

from typing import Final

from graphviz_dash.analysis.fold import FoldBy
from graphviz_dash.analysis.measured_graph import MeasuredGraph
from graphviz_dash.charts.dag import FoldedGraph, folded
from graphviz_dash.model.run import Run
from graphviz_dash.progress import CancelledError
from graphviz_dash.ui.jobs import JOBS, Standing, State, Task
from graphviz_dash.ui.results import (
    GraphAddress,
    eager_nodes,
    graph_pair,
    graph_union,
    measured,
    node_replays,
    nodes,
    whole,
)
from graphviz_dash.ui.store import STORE, UnknownKeyError

LARGE: Final = 5_000
"""Nodes from which on a page does not wait for a graph that was not prepared before."""

_PATIENCE: Final = 60.0
"""Seconds between two looks at a job, which wakes who waits for it when it ends."""


def is_ready(of: GraphAddress, against: GraphAddress | None, by: FoldBy = FoldBy.ORDER) -> bool:
    """Whether a view of the graph is there without work."""
    return STORE.has(of[0], _slot(of, against, by))


def prepared(
    of: GraphAddress, against: GraphAddress | None = None, by: FoldBy = FoldBy.ORDER
) -> FoldedGraph:
    """A graph, or two as one, folded and ready for views; built once, a large one by a job.

    Raises:
        UnknownKeyError: no such experiment, run or graph.
        InputError: an experiment cannot be read.
        CancelledError: the job was cancelled meanwhile.
    """
    if not is_ready(of, against, by) and _size(of) >= LARGE:
        job = JOBS.begin(_job(of, against, by), _tasks(of, against, by), again=True)
        while (standing := job.wait(_PATIENCE)).state is State.RUNNING:
            pass
        if standing.state is State.CANCELLED:
            raise CancelledError
    return _folded(of, by) if against is None else _compared(of, against, by)


def standing(of: GraphAddress, against: GraphAddress | None, by: FoldBy = FoldBy.ORDER) -> Standing:
    """How far the preparation of a graph is."""
    job = JOBS.of(_job(of, against, by))
    return Standing(State.DONE, "", 1.0) if job is None else job.standing


def cancel(of: GraphAddress, against: GraphAddress | None, by: FoldBy = FoldBy.ORDER) -> Standing:
    """Ends the preparation of a graph before its next stage; what was made is kept."""
    job = JOBS.of(_job(of, against, by))
    if job is not None:
        job.cancel()
    return standing(of, against, by)


def _job(of: GraphAddress, against: GraphAddress | None, by: FoldBy) -> tuple[object, ...]:
    return ("graph", of, against, by)


def _size(of: GraphAddress) -> int:
    run = STORE.run(of[0], of[1])
    if of[2] not in {graph.id for graph in run.graphs}:
        raise UnknownKeyError(of[2])
    return nodes_of(run, of[2])


def _tasks(of: GraphAddress, against: GraphAddress | None, by: FoldBy) -> list[Task]:
    key, run_name, _ = of
    own: list[Task] = [
        ("Matching the replays with the nodes", lambda: node_replays(key, run_name)),
        ("Finding operators and source lines", lambda: nodes(*of)),
    ]
    if against is None:
        return [
            *own,
            ("Putting in place the graphs inside it", lambda: whole(*of)),
            ("Finding the critical path", lambda: measured(*of)),
            ("Folding", lambda: _folded(of, by)),
        ]
    return [
        *own,
        ("Finding those of the earlier graph", lambda: nodes(*against)),
        ("Comparing the graphs", lambda: graph_pair(of, against)),
        ("Putting them together", lambda: graph_union(of, against)),
        ("Folding", lambda: _compared(of, against, by)),
    ]


def _slot(of: GraphAddress, against: GraphAddress | None, by: FoldBy) -> tuple[object, ...]:
    return ("folded", *of[1:], by) if against is None else ("folded", of, against, by)


def _folded(of: GraphAddress, by: FoldBy) -> FoldedGraph:
    found, times = whole(*of), measured(*of)
    path = times if isinstance(times, MeasuredGraph) else None
    return STORE.derived(
        of[0],
        _slot(of, None, by),
        lambda _: folded(found, path, eager=lambda: eager_nodes(*of), by=by),
    )


def _compared(of: GraphAddress, against: GraphAddress, by: FoldBy) -> FoldedGraph:
    union = graph_union(of, against)
    return STORE.derived(
        of[0], _slot(of, against, by), lambda _: folded(union.whole, union=union, by=by)
    )


def nodes_of(run: Run, graph_id: str) -> int:
    """Nodes of a graph and of all that lies in it, without building anything."""
    by_id = {graph.id: graph for graph in run.graphs}
    names = [graph_id]
    for name in names:
        names += [body for node in by_id[name].nodes for body in node.bodies if body in by_id]
    return sum(len(by_id[name].nodes) for name in names)
