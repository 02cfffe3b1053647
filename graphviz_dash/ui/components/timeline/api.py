"""The timeline's routes: a view of a window, and the card of a slice.

They bypass the pages' sessions, so every parameter is checked here: experiments by opaque key, runs
by name within it, numbers within bounds. What is wrong is answered as JSON, ``{"error": {"code",
"message"}}``, with status 400 (a parameter), 404 (no such thing) or 422 (a bundle that cannot be
read).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from graphviz_dash.analysis.attribution import attribute
from graphviz_dash.analysis.nodes import NodeRow, build_node_table
from graphviz_dash.analysis.replays import ReplayMatch, match_replays
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
from graphviz_dash.errors import InputError, printable
from graphviz_dash.model.run import Run
from graphviz_dash.ui.store import STORE, UnknownKeyError

_KEY: Final = re.compile(r"[0-9a-f]{12}")
_MAX_RUNS: Final = 8
_MAX_NAME: Final = 255
_MAX_TIME: Final = 1 << 53  # what a browser's numbers hold exactly
_MAX_PIXELS_ASKED: Final = 1 << 20
_INTEGER: Final = re.compile(r"-?[0-9]{1,16}")


class _BadParameterError(ValueError):
    """A parameter of a request is missing or not what it should be."""


def routes() -> list[Route]:
    """GET /api/timeline/view and GET /api/timeline/slice."""
    return [
        Route("/api/timeline/view", _answering(_view), methods=["GET"]),
        Route("/api/timeline/slice", _answering(_slice), methods=["GET"]),
    ]


def timeline_of(key: str, run_name: str) -> RunTimeline:
    """The timeline of a run of an opened experiment, built once.

    Raises:
        UnknownKeyError: no such experiment or run.
        InputError: the experiment cannot be read.
    """
    run = STORE.run(key, run_name)
    replays = _replays(key, run)
    return STORE.derived(key, ("timeline", run_name), lambda _: run_timeline(run, replays))


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
    return STORE.derived(key, ("replays", run.name), lambda _: match_replays(run.graphs, trace))


def _node_row(key: str, run: Run, node: MatchedNode) -> NodeRow:
    graph = next(graph for graph in run.graphs if graph.id == node.graph)
    replays = _replays(key, run)
    table = STORE.derived(
        key,
        ("node table", run.name, node.graph),
        lambda _: build_node_table(graph, attribute(graph, run.capture_trace), replays),
    )
    return table.rows[node.node]


def _view(request: Request) -> msgspec.Struct:
    key = _key(request)
    names = request.query_params.getlist("run")
    if not 1 <= len(names) <= _MAX_RUNS:
        raise _BadParameterError(f"run: {len(names)} given, expected 1 to {_MAX_RUNS}")
    steps = request.query_params.getlist("step") or [""] * len(names)
    if len(steps) != len(names):
        raise _BadParameterError(f"step: {len(steps)} given, expected one for each run or none")
    pixels = _integer(request, "px", 1, _MAX_PIXELS_ASKED)
    window = None
    if "t0" in request.query_params or "t1" in request.query_params:
        window = (
            _integer(request, "t0", -_MAX_TIME, _MAX_TIME),
            _integer(request, "t1", -_MAX_TIME, _MAX_TIME),
        )
        if window[0] >= window[1]:
            raise _BadParameterError("t1: not later than t0")
    runs = [
        choose(timeline_of(key, _name(name)), _step(step))
        for name, step in zip(names, steps, strict=True)
    ]
    return timeline_view(runs, window, pixels)


def _slice(request: Request) -> msgspec.Struct:
    key = _key(request)
    name = _name(_one(request, "run"))
    step = _step(request.query_params.get("step", ""))
    which = _one(request, "slice")
    try:
        return card(key, name, step, which)
    except InputError as problem:
        if problem.where == "slice":
            raise UnknownKeyError(str(problem)) from problem
        raise


def _answering(handler: Callable[[Request], msgspec.Struct]) -> Callable[[Request], Response]:
    """``handler`` as an endpoint that answers JSON, errors too. It is not a coroutine function, so
    it runs on a thread and never holds up the pages."""

    def endpoint(request: Request) -> Response:
        try:
            return _json(handler(request), 200)
        except _BadParameterError as problem:
            return _error(400, "bad-parameter", str(problem))
        except UnknownKeyError as problem:
            return _error(404, "not-found", str(problem.args[0]))
        except InputError as problem:
            return _error(422, "unreadable", str(problem))

    return endpoint


def _json(body: object, status: int) -> Response:
    return Response(
        msgspec.json.encode(body),
        status_code=status,
        media_type="application/json",
        headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"},
    )


def _error(status: int, code: str, message: str) -> Response:
    text = printable(message)[:600]
    return _json({"error": {"code": code, "message": text}}, status)


def _one(request: Request, name: str) -> str:
    values = request.query_params.getlist(name)
    if len(values) != 1:
        raise _BadParameterError(f"{name}: {len(values)} given, expected one")
    return values[0]


def _key(request: Request) -> str:
    key = _one(request, "experiment")
    if not _KEY.fullmatch(key):
        raise _BadParameterError("experiment: not a key")
    return key


def _name(text: str) -> str:
    if not text or len(text) > _MAX_NAME:
        raise _BadParameterError(f"run: expected a name of 1 to {_MAX_NAME} characters")
    return text


def _step(text: str) -> int | None:
    if text == "":
        return None
    if not _INTEGER.fullmatch(text):
        raise _BadParameterError(f"step: {text[:40]!r}, expected an integer or nothing")
    return int(text)


def _integer(request: Request, name: str, least: int, most: int) -> int:
    text = _one(request, name)
    if not _INTEGER.fullmatch(text) or not least <= int(text) <= most:
        raise _BadParameterError(
            f"{name}: {text[:40]!r}, expected an integer from {least} to {most}"
        )
    return int(text)
