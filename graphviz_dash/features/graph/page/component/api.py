"""Routes of the DAG component: views of a folded graph, search, edges and repeats.

Parameter checks and responses: graphviz_dash.ui.components.requests.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from graphviz_dash.features.graph.drawing.colours import ColourBy
from graphviz_dash.features.graph.drawing.edges import EdgeList, edges_between
from graphviz_dash.features.graph.drawing.folded import FoldedGraph
from graphviz_dash.features.graph.drawing.layout import ALL
from graphviz_dash.features.graph.drawing.repeat_card import RepeatCard, repeat_card
from graphviz_dash.features.graph.drawing.unfolding import USUAL_WIDTH
from graphviz_dash.features.graph.drawing.view import DagView, dag_view, search
from graphviz_dash.features.graph.folding.fold import FoldBy
from graphviz_dash.features.graph.page.component.drawing import Drawing, dot_drawing, svg_drawing
from graphviz_dash.features.graph.page.component.preparing import (
    cancel,
    drawable,
    prepared,
    standing,
    view_is_made,
)
from graphviz_dash.features.graph.page.state.graphs import GraphAddress
from graphviz_dash.progress import CancelledError
from graphviz_dash.ui.components.requests import (
    BadParameterError,
    answering,
    checked_name,
    experiment_key,
    integer,
    one,
)
from graphviz_dash.ui.state.jobs import Standing
from graphviz_dash.ui.state.store import UnknownKeyError

_GROUP: Final = re.compile(r"g(\.[0-9]{1,6}){0,64}")
_BOX: Final = re.compile(r"g(\.[0-9]{1,6}){0,64}|n[0-9]{1,9}")
_SHOWN: Final = re.compile(r"g(\.[0-9]{1,6}){1,64}:(-1|[0-9]{1,7})")
_MAX_EXPANDED: Final = 400
_MAX_GRAPH_ID: Final = 120
_MAX_SEARCH: Final = 200
_MOST_HITS: Final = 500
_WITHOUT_TIMES: Final = (ColourBy.CATEGORY, ColourBy.KIND, ColourBy.MODULE, ColourBy.PHASE)
_RATIO: Final = (0.1, 20.0)
_WIDTH: Final = (50, 20_000)


class Hits(msgspec.Struct, frozen=True):
    """Nodes that match a search."""

    total: int
    """Number of matches."""
    nodes: list[int]
    """Indices of the first matches."""
    around: list[str]
    """Ids of the groups to unfold to show them."""
    leaves: list[int]
    """Positions of ``nodes`` in the order of the fold, ascending."""


def routes() -> list[Route]:
    """Return the routes for views, search and details, and for progress and cancellation."""
    handlers: dict[str, Callable[[Request], msgspec.Struct]] = {
        "view": _view,
        "search": _search,
        "edges": _edges,
        "repeat": _repeat,
        "drawing": _drawing,
        "progress": _progress,
        "complete": _complete,
    }
    return [
        *(
            Route(f"/api/dag/{name}", answering(handler), methods=["GET"])
            for name, handler in handlers.items()
        ),
        Route("/api/dag/cancel", answering(_cancel), methods=["POST"]),
    ]


def _view(request: Request) -> DagView:
    colour = _colour(request)
    # Colourings by time need the times.
    soon = request.query_params.get("soon") == "yes" and colour in _WITHOUT_TIMES
    graph = _graph(request, drawable if soon else prepared)
    focus = request.query_params.get("focus", "")
    if focus:
        node = integer(request, "focus", 0, 1 << 40)
        if node >= len(graph.rows):
            raise UnknownKeyError(f"no node {node}")
    view = dag_view(
        graph,
        colour,
        _ratio(request),
        _expanded(request),
        int(focus) if focus else None,
        _group(request, "first"),
        _shown(request),
        _width(request),
    )
    view_is_made(_wanted(request)[0])
    return view


def _search(request: Request) -> Hits:
    text = one(request, "q").strip()
    if not 1 <= len(text) <= _MAX_SEARCH:
        raise BadParameterError(f"q: expected 1 to {_MAX_SEARCH} characters")
    graph = _graph(request)
    hits, around = search(graph, text, _MOST_HITS)
    leaves = sorted(int(graph.root.order.at[node]) for node in hits[:_MOST_HITS])
    return Hits(len(hits), hits[:_MOST_HITS], around[:_MAX_EXPANDED], leaves)


def _edges(request: Request) -> EdgeList:
    try:
        return edges_between(_graph(request), _box(request, "source"), _box(request, "target"))
    except KeyError as missing:
        raise UnknownKeyError(f"no box {missing.args[0]}") from missing


def _repeat(request: Request) -> RepeatCard:
    ident = _box(request, "group")
    try:
        return repeat_card(_graph(request), ident, integer(request, "block", ALL, 1 << 40))
    except KeyError as missing:
        raise UnknownKeyError(f"no repeat {ident}, or no such block") from missing


def _drawing(request: Request) -> Drawing:
    kind = one(request, "format")
    if kind not in ("svg", "dot"):
        raise BadParameterError(f"format: {kind[:40]!r}, expected svg or dot")
    theme = one(request, "theme")
    if theme not in ("light", "dark"):
        raise BadParameterError(f"theme: {theme[:40]!r}, expected light or dark")
    view = _view(request)
    name = f"{one(request, 'run')}-{one(request, 'graph')}"
    return (
        svg_drawing(view, name, dark=theme == "dark") if kind == "svg" else dot_drawing(view, name)
    )


def _progress(request: Request) -> Standing:
    return standing(*_wanted(request))


def _cancel(request: Request) -> Standing:
    return cancel(*_wanted(request))


def _complete(request: Request) -> Standing:
    """Wait for the preparation to end, and return its status."""
    _graph(request)
    return standing(*_wanted(request))


def _graph(request: Request, made: Callable[..., FoldedGraph] = prepared) -> FoldedGraph:
    try:
        return made(*_wanted(request))
    except CancelledError as cancelled:
        raise BadParameterError("preparation of the graph was cancelled") from cancelled


def _wanted(request: Request) -> tuple[GraphAddress, GraphAddress | None, FoldBy]:
    """Parse the requested graph, the earlier graph to compare with, and the way to fold (default:
    execution order)."""
    by = request.query_params.get("fold", FoldBy.ORDER.value)
    if by not in list(FoldBy):
        raise BadParameterError(f"fold: {by[:40]!r}, expected one of {', '.join(FoldBy)}")
    of = (experiment_key(request), checked_name(one(request, "run")), _graph_id(request, "graph"))
    if "against" not in request.query_params:
        return of, None, FoldBy(by)
    run = checked_name(one(request, "against_run"))
    against = (experiment_key(request, "against"), run, _graph_id(request, "against_graph"))
    return of, against, FoldBy(by)


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


def _width(request: Request) -> float:
    return integer(request, "width", *_WIDTH) if "width" in request.query_params else USUAL_WIDTH


def _expanded(request: Request) -> list[str] | None:
    """Parse the unfolded groups; None if missing, then as many as fit are unfolded."""
    text = request.query_params.get("expanded")
    if text is None:
        return None
    parts = text.split(",") if text else []
    if len(parts) > _MAX_EXPANDED or not all(_GROUP.fullmatch(part) for part in parts):
        raise BadParameterError(f"expanded: expected at most {_MAX_EXPANDED} ids such as g.0.2")
    return parts


def _group(request: Request, name: str) -> str | None:
    text = request.query_params.get(name)
    if text is not None and not _GROUP.fullmatch(text):
        raise BadParameterError(f"{name}: expected an id such as g.0.2")
    return text


def _box(request: Request, name: str) -> str:
    text = one(request, name)
    if not _BOX.fullmatch(text):
        raise BadParameterError(f"{name}: expected an id such as g.0.2 or n17")
    return text


def _shown(request: Request) -> dict[str, int]:
    text = request.query_params.get("shown", "")
    parts = text.split(",") if text else []
    if len(parts) > _MAX_EXPANDED or not all(_SHOWN.fullmatch(part) for part in parts):
        raise BadParameterError(f"shown: expected at most {_MAX_EXPANDED} pairs such as g.0.2:5")
    return {ident: int(block) for ident, block in (part.split(":") for part in parts)}
