"""The work before a graph's first view, in stages that are told and can be given up between.

A browser draws a ticket and sends it with its requests: under it the stage is asked for, and the
work is given up. What a stage made is kept whatever happens, so that nothing is done twice.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from graphviz_dash.analysis.measured_graph import MeasuredGraph
from graphviz_dash.charts.dag import FoldedGraph, folded
from graphviz_dash.model.run import Run
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
from graphviz_dash.ui.store import STORE

_MOST_TICKETS: Final = 256
LARGE: Final = 5_000
"""Nodes from which on a page does not wait for a graph that was not prepared before."""


class GivenUpError(Exception):
    """The browser that asked for a view has given it up."""


class Tickets:
    """What is being prepared, by ticket; safe to use from threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stages: OrderedDict[str, tuple[int, int, str]] = OrderedDict()
        self._given_up: OrderedDict[str, None] = OrderedDict()

    def begin(self, ticket: str | None, number: int, count: int, what: str) -> None:
        """Notes that stage ``number`` of ``count`` begins.

        Raises:
            GivenUpError: the ticket was given up.
        """
        if ticket is None:
            return
        with self._lock:
            if ticket in self._given_up:
                del self._given_up[ticket]
                self._stages.pop(ticket, None)
                raise GivenUpError(what)
            self._stages[ticket] = (number, count, what)
            _trim(self._stages)

    def stage(self, ticket: str) -> tuple[int, int, str]:
        """The stage of a ticket; 0 of 0 where nothing is being done for it."""
        with self._lock:
            return self._stages.get(ticket, (0, 0, ""))

    def done(self, ticket: str | None) -> None:
        """Forgets a ticket."""
        if ticket is not None:
            with self._lock:
                self._stages.pop(ticket, None)
                self._given_up.pop(ticket, None)

    def give_up(self, ticket: str) -> None:
        """The work of a ticket ends before its next stage."""
        with self._lock:
            self._given_up[ticket] = None
            _trim(self._given_up)


def _trim(known: OrderedDict[str, Any]) -> None:
    while len(known) > _MOST_TICKETS:
        known.popitem(last=False)


TICKETS: Final = Tickets()


def is_ready(of: GraphAddress, against: GraphAddress | None) -> bool:
    """Whether a view of the graph is there without work."""
    return STORE.has(of[0], _slot(of, against))


def prepared(
    of: GraphAddress, against: GraphAddress | None = None, ticket: str | None = None
) -> FoldedGraph:
    """A graph, or two as one, folded and ready for views; built once.

    Raises:
        UnknownKeyError: no such experiment, run or graph.
        InputError: an experiment cannot be read.
        GivenUpError: the ticket was given up meanwhile.
    """
    if not is_ready(of, against):
        stages = _single(of) if against is None else _both(of, against)
        for number, (what, work) in enumerate(stages):
            TICKETS.begin(ticket, number, len(stages), what)
            work()
        TICKETS.done(ticket)
    return _folded(of) if against is None else _compared(of, against)


def _single(of: GraphAddress) -> list[tuple[str, Callable[[], object]]]:
    key, run_name, _ = of
    return [
        ("reading the bundles", lambda: STORE.experiment(key)),
        ("matching the replays with the nodes", lambda: node_replays(key, run_name)),
        ("looking for operators and source lines", lambda: nodes(*of)),
        ("putting the graphs inside it in place", lambda: whole(*of)),
        ("looking for the critical path", lambda: measured(*of)),
        ("folding", lambda: _folded(of)),
    ]


def _both(of: GraphAddress, against: GraphAddress) -> list[tuple[str, Callable[[], object]]]:
    return [
        ("reading the bundles", lambda: STORE.experiment(of[0])),
        ("looking for operators and source lines", lambda: nodes(*of)),
        ("those of the earlier graph", lambda: nodes(*against)),
        ("comparing the graphs", lambda: graph_pair(of, against)),
        ("putting them together", lambda: graph_union(of, against)),
        ("folding", lambda: _compared(of, against)),
    ]


def _slot(of: GraphAddress, against: GraphAddress | None) -> tuple[object, ...]:
    return ("folded", *of[1:]) if against is None else ("folded", of, against)


def _folded(of: GraphAddress) -> FoldedGraph:
    found, times = whole(*of), measured(*of)
    path = times if isinstance(times, MeasuredGraph) else None
    return STORE.derived(
        of[0], _slot(of, None), lambda _: folded(found, path, eager=lambda: eager_nodes(*of))
    )


def _compared(of: GraphAddress, against: GraphAddress) -> FoldedGraph:
    union = graph_union(of, against)
    return STORE.derived(of[0], _slot(of, against), lambda _: folded(union.whole, union=union))


def nodes_of(run: Run, graph_id: str) -> int:
    """Nodes of a graph and of all that lies in it, without building anything."""
    by_id = {graph.id: graph for graph in run.graphs}
    names = [graph_id]
    for name in names:
        names += [body for node in by_id[name].nodes for body in node.bodies if body in by_id]
    return sum(len(by_id[name].nodes) for name in names)
