"""The timeline's routes: a view of a window, and the card of a slice.

How parameters are checked and answers given: graphviz_dash.ui.answers.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from graphviz_dash.analysis.attribution import attribute
from graphviz_dash.analysis.nodes import NodeRow, build_node_table
from graphviz_dash.analysis.rank_steps import shared_steps
from graphviz_dash.analysis.replays import ReplayMatch, known_of, match_replays
from graphviz_dash.charts.timeline import timeline_view
from graphviz_dash.charts.timeline_card import (
    MatchedNode,
    SliceCard,
    node_of,
    node_slice,
    parse_slice,
    slice_card,
)
from graphviz_dash.charts.timeline_run import RunTimeline, choose, run_timeline
from graphviz_dash.errors import InputError
from graphviz_dash.model.run import Run
from graphviz_dash.ui.answers import (
    BadParameterError,
    answering,
    checked_name,
    experiment_key,
    integer,
    one,
)
from graphviz_dash.ui.store import STORE, UnknownKeyError

_MAX_RUNS: Final = 8
_MAX_TIME: Final = 1 << 53  # what a browser's numbers hold exactly
_MAX_PIXELS_ASKED: Final = 1 << 20
_INTEGER: Final = re.compile(r"-?[0-9]{1,16}")


def routes() -> list[Route]:
    """GET /api/timeline/view and GET /api/timeline/slice."""
    return [
        Route("/api/timeline/view", answering(_view), methods=["GET"]),
        Route("/api/timeline/slice", answering(_slice), methods=["GET"]),
    ]


def timeline_of(key: str, run_name: str) -> RunTimeline:
    """The timeline of a run of an opened experiment, built once.

    Raises:
        UnknownKeyError: no such experiment or run.
        InputError: the experiment cannot be read.
    """
    run = STORE.run(key, run_name)
    replays = _replays(key, run)
    shared = STORE.derived(key, "shared steps", shared_steps).get(run_name)
    return STORE.derived(key, ("timeline", run_name), lambda _: run_timeline(run, replays, shared))


def card(key: str, run_name: str, step: int | None, which: str) -> SliceCard:
    """The card of the slice ``which``: "g12", "c12", or a node as "graph-0#17".

    Raises:
        UnknownKeyError: no such experiment or run.
        InputError: no such slice, or the experiment cannot be read.
    """
    run = STORE.run(key, run_name)
    chosen = choose(timeline_of(key, run_name), step)
    found = node_slice(chosen, which) if "#" in which else parse_slice(chosen.timeline, which)
    if found is None or run.replay_trace is None:
        raise InputError("slice", repr(which[:80]), f"a node with a traced slice in {run_name}")
    node = node_of(chosen.timeline, found)
    origin = _node_row(key, run, node) if node else None
    return slice_card(chosen, run.replay_trace, found, origin)


def _replays(key: str, run: Run) -> ReplayMatch | None:
    """The nodes of the run's replays; None for a run without graphs or without a trace."""
    trace = run.replay_trace
    if trace is None or not run.graphs:
        return None
    return STORE.derived(
        key, ("replays", run.name), lambda _: match_replays(run.graphs, trace, known_of(run))
    )


def _node_row(key: str, run: Run, node: MatchedNode) -> NodeRow:
    graph = next(graph for graph in run.graphs if graph.id == node.graph)
    replays = _replays(key, run)
    table = STORE.derived(
        key,
        ("node table", run.name, node.graph),
        lambda _: build_node_table(graph, attribute(graph, run.capture_trace), replays, run.graphs),
    )
    return table.rows[node.node]


def _view(request: Request) -> msgspec.Struct:
    key = experiment_key(request)
    names = request.query_params.getlist("run")
    if not 1 <= len(names) <= _MAX_RUNS:
        raise BadParameterError(f"run: {len(names)} given, expected 1 to {_MAX_RUNS}")
    steps = request.query_params.getlist("step") or [""] * len(names)
    if len(steps) != len(names):
        raise BadParameterError(f"step: {len(steps)} given, expected one for each run or none")
    pixels = integer(request, "px", 1, _MAX_PIXELS_ASKED)
    window = None
    if "t0" in request.query_params or "t1" in request.query_params:
        window = (
            integer(request, "t0", -_MAX_TIME, _MAX_TIME),
            integer(request, "t1", -_MAX_TIME, _MAX_TIME),
        )
        if window[0] >= window[1]:
            raise BadParameterError("t1: not later than t0")
    runs = [
        choose(timeline_of(key, checked_name(name)), _step(step))
        for name, step in zip(names, steps, strict=True)
    ]
    return timeline_view(runs, window, pixels)


def _slice(request: Request) -> msgspec.Struct:
    key = experiment_key(request)
    name = checked_name(one(request, "run"))
    step = _step(request.query_params.get("step", ""))
    which = one(request, "slice")
    try:
        return card(key, name, step, which)
    except InputError as problem:
        if problem.where == "slice":
            raise UnknownKeyError(str(problem)) from problem
        raise


def _step(text: str) -> int | None:
    if text == "":
        return None
    if not _INTEGER.fullmatch(text):
        raise BadParameterError(f"step: {text[:40]!r}, expected an integer or nothing")
    return int(text)
