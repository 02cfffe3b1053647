"""The DAG's routes: a view of a folded graph, and a search for nodes.

How parameters are checked and answers given: graphviz_dash.ui.answers.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from graphviz_dash.charts.dag import ColourBy, DagView, FoldedGraph, dag_view, folded, search
from graphviz_dash.ui.answers import (
    BadParameterError,
    answering,
    checked_name,
    experiment_key,
    integer,
    one,
)
from graphviz_dash.ui.results import GraphAddress, graph_union, measured, whole
from graphviz_dash.ui.store import STORE, UnknownKeyError

_GROUP: Final = re.compile(r"g(\.[0-9]{1,6}){0,64}")
_MAX_EXPANDED: Final = 400
_MAX_GRAPH_ID: Final = 120
_MAX_SEARCH: Final = 200
_MOST_HITS: Final = 500
_RATIO: Final = (0.1, 20.0)


class Hits(msgspec.Struct, frozen=True):
    """Nodes found, the first of them as ``nodes``; ``around`` are the groups to unfold."""

    total: int
    nodes: list[int]
    around: list[str]


def routes() -> list[Route]:
    """GET /api/dag/view and GET /api/dag/search."""
    return [
        Route("/api/dag/view", answering(_view), methods=["GET"]),
        Route("/api/dag/search", answering(_search), methods=["GET"]),
    ]


def folded_graph(key: str, run_name: str, graph_id: str) -> FoldedGraph:
    """The folded graph of a run of an opened experiment, with all that it holds, built once.

    Raises:
        UnknownKeyError: no such experiment, run or graph.
        InputError: the experiment cannot be read.
    """
    found = whole(key, run_name, graph_id)
    times = measured(key, run_name, graph_id)
    path = None if isinstance(times, str) else times
    return STORE.derived(key, ("folded", run_name, graph_id), lambda _: folded(found, path))


def compared_graph(of: GraphAddress, against: GraphAddress) -> FoldedGraph:
    """Two graphs folded as one, built once.

    Raises:
        UnknownKeyError: no such experiment, run or graph.
        InputError: an experiment cannot be read.
    """
    union = graph_union(of, against)
    return STORE.derived(of[0], ("folded", of, against), lambda _: folded(union.whole, union=union))


def _view(request: Request) -> DagView:
    graph = _graph(request)
    focus = request.query_params.get("focus", "")
    if focus:
        node = integer(request, "focus", 0, 1 << 40)
        if node >= len(graph.rows):
            raise UnknownKeyError(f"no node {node}")
    return dag_view(
        graph,
        _colour(request),
        _ratio(request),
        _expanded(request),
        int(focus) if focus else None,
        _first(request),
    )


def _search(request: Request) -> Hits:
    text = one(request, "q").strip()
    if not 1 <= len(text) <= _MAX_SEARCH:
        raise BadParameterError(f"q: expected 1 to {_MAX_SEARCH} characters")
    hits, around = search(_graph(request), text, _MOST_HITS)
    return Hits(len(hits), hits[:_MOST_HITS], around[:_MAX_EXPANDED])


def _graph(request: Request) -> FoldedGraph:
    of = (experiment_key(request), checked_name(one(request, "run")), _graph_id(request, "graph"))
    if "against" not in request.query_params:
        return folded_graph(*of)
    run = checked_name(one(request, "against_run"))
    key = experiment_key(request, "against")
    return compared_graph(of, (key, run, _graph_id(request, "against_graph")))


def _graph_id(request: Request, name: str) -> str:
    graph_id = one(request, name)
    if not graph_id or len(graph_id) > _MAX_GRAPH_ID:
        raise BadParameterError(f"{name}: expected an id of 1 to {_MAX_GRAPH_ID} characters")
    return graph_id


def _colour(request: Request) -> ColourBy:
    text = one(request, "colour")
    if text not in list(ColourBy):
        raise BadParameterError(f"colour: {text[:40]!r}, expected one of {', '.join(ColourBy)}")
    return ColourBy(text)


def _ratio(request: Request) -> float:
    text = one(request, "ratio")
    least, most = _RATIO
    if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,6})?", text) or not least <= float(text) <= most:
        raise BadParameterError(f"ratio: {text[:40]!r}, expected a number from {least} to {most}")
    return float(text)


def _expanded(request: Request) -> list[str] | None:
    """None when the parameter is not given: the server then unfolds what fits."""
    text = request.query_params.get("expanded")
    if text is None:
        return None
    parts = text.split(",") if text else []
    if len(parts) > _MAX_EXPANDED or not all(_GROUP.fullmatch(part) for part in parts):
        raise BadParameterError(f"expanded: expected at most {_MAX_EXPANDED} ids such as g.0.2")
    return parts


def _first(request: Request) -> str | None:
    """The group that is unfolded before others, if one is given."""
    text = request.query_params.get("first")
    if text is not None and not _GROUP.fullmatch(text):
        raise BadParameterError("first: expected an id such as g.0.2")
    return text
