"""Routes of the DAG component: views of a folded graph, search, edges and repeats.

Parameter checks and responses: graphviz_dash.ui.components.requests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from graphviz_dash.features.graph.drawing.colours import ColourBy
from graphviz_dash.features.graph.drawing.dot import format_view_dot
from graphviz_dash.features.graph.drawing.edges import EdgeList, list_edges_between
from graphviz_dash.features.graph.drawing.folded import FoldedGraph
from graphviz_dash.features.graph.drawing.layout import ALL_BLOCKS
from graphviz_dash.features.graph.drawing.repeat_card import RepeatCard, build_repeat_card
from graphviz_dash.features.graph.drawing.static import draw_view_file
from graphviz_dash.features.graph.drawing.unfolding import DEFAULT_WIDTH
from graphviz_dash.features.graph.drawing.view import DagView, build_dag_view, search_nodes
from graphviz_dash.features.graph.folding.fold import FoldCriterion
from graphviz_dash.features.graph.page.component.preparing import (
    DrawnGraph,
    cancel_preparation,
    get_preparation_status,
    prepare_drawable_graph,
    prepare_graph,
    signal_view,
)
from graphviz_dash.features.graph.page.state.graphs import GraphAddress
from graphviz_dash.progress import CancelledError
from graphviz_dash.ui.components.requests import (
    BadParameterError,
    check_run_name,
    get_parameter,
    parse_experiment_key,
    parse_integer,
    wrap_handler,
)
from graphviz_dash.ui.state.jobs import JobStatus
from graphviz_dash.ui.state.store import UnknownKeyError

_GROUP_ID: Final = re.compile(r"g(\.[0-9]{1,6}){0,64}")
_BOX_ID: Final = re.compile(r"g(\.[0-9]{1,6}){0,64}|n[0-9]{1,9}")
_BLOCK_CHOICE: Final = re.compile(r"g(\.[0-9]{1,6}){1,64}:(-1|[0-9]{1,7})")
_MAX_EXPANDED: Final = 400
_MAX_GRAPH_ID: Final = 120
_MAX_SEARCH: Final = 200
_MAX_HITS: Final = 500
_TIMELESS_COLOURINGS: Final = (ColourBy.CATEGORY, ColourBy.KIND, ColourBy.MODULE, ColourBy.PHASE)
_RATIO_BOUNDS: Final = (0.1, 20.0)
_WIDTH_BOUNDS: Final = (50, 20_000)


class Hits(msgspec.Struct, frozen=True):
    """Nodes that match a search."""

    total: int
    """Number of matches."""
    nodes: list[int]
    """Indices of the first matches."""
    groups: list[str]
    """Ids of the groups to unfold to show them."""
    positions: list[int]
    """Positions of ``nodes`` in the order of the fold, ascending."""


def build_routes() -> list[Route]:
    """Return the routes."""
    handlers: dict[str, Callable[[Request], msgspec.Struct]] = {
        "view": _handle_view,
        "search": _handle_search,
        "edges": _handle_edges,
        "repeat": _handle_repeat,
        "drawing": _handle_drawing,
        "progress": _handle_progress,
        "complete": _handle_complete,
    }
    return [
        *(
            Route(f"/api/dag/{name}", wrap_handler(handler), methods=["GET"])
            for name, handler in handlers.items()
        ),
        Route("/api/dag/cancel", wrap_handler(_handle_cancel), methods=["POST"]),
    ]


def _handle_view(request: Request) -> DagView:
    colour = ColourBy(_parse_choice(request, "colour", list(ColourBy)))
    # Colourings by time need the times.
    soon = request.query_params.get("soon") == "yes" and colour in _TIMELESS_COLOURINGS
    graph = _load_graph(request, prepare_drawable_graph if soon else prepare_graph)
    focus = request.query_params.get("focus", "")
    if focus:
        node = parse_integer(request, "focus", 0, 1 << 40)
        if node >= len(graph.rows):
            raise UnknownKeyError(f"no node {node}")
    view = build_dag_view(
        graph,
        colour,
        _parse_ratio(request),
        _parse_expanded(request),
        int(focus) if focus else None,
        _parse_group(request, "first"),
        _parse_shown(request),
        _parse_width(request),
    )
    signal_view(_parse_graph(request).address)
    return view


def _handle_search(request: Request) -> Hits:
    text = get_parameter(request, "q").strip()
    if not 1 <= len(text) <= _MAX_SEARCH:
        raise BadParameterError(f"q: expected 1 to {_MAX_SEARCH} characters")
    graph = _load_graph(request)
    hits, around = search_nodes(graph, text, _MAX_HITS)
    leaves = sorted(int(graph.root.order.positions[node]) for node in hits[:_MAX_HITS])
    return Hits(len(hits), hits[:_MAX_HITS], around[:_MAX_EXPANDED], leaves)


def _handle_edges(request: Request) -> EdgeList:
    try:
        return list_edges_between(
            _load_graph(request), _parse_box(request, "source"), _parse_box(request, "target")
        )
    except KeyError as missing:
        raise UnknownKeyError(f"no box {missing.args[0]}") from missing


def _handle_repeat(request: Request) -> RepeatCard:
    ident = _parse_box(request, "group")
    try:
        return build_repeat_card(
            _load_graph(request), ident, parse_integer(request, "block", ALL_BLOCKS, 1 << 40)
        )
    except KeyError as missing:
        raise UnknownKeyError(f"no repeat {ident}, or no such block") from missing


def _handle_drawing(request: Request) -> Drawing:
    kind = _parse_choice(request, "format", ("svg", "dot"))
    theme = _parse_choice(request, "theme", ("light", "dark"))
    view = _handle_view(request)
    name = f"{get_parameter(request, 'run')}-{get_parameter(request, 'graph')}"
    return draw_svg(view, name, dark=theme == "dark") if kind == "svg" else write_dot(view, name)


def _handle_progress(request: Request) -> JobStatus:
    return get_preparation_status(_parse_graph(request))


def _handle_cancel(request: Request) -> JobStatus:
    return cancel_preparation(_parse_graph(request))


def _handle_complete(request: Request) -> JobStatus:
    _load_graph(request)
    return get_preparation_status(_parse_graph(request))


def _load_graph(
    request: Request, prepare: Callable[[DrawnGraph], FoldedGraph] = prepare_graph
) -> FoldedGraph:
    try:
        return prepare(_parse_graph(request))
    except CancelledError as cancelled:
        raise BadParameterError("preparation of the graph was cancelled") from cancelled


def _parse_graph(request: Request) -> DrawnGraph:
    """Parse graph, earlier graph to compare with, and fold criterion (default: execution order)."""
    by = FoldCriterion(_parse_choice(request, "fold", list(FoldCriterion), FoldCriterion.ORDER))
    graph, other_graph = _parse_address(request, "experiment", "run", "graph"), None
    if "against" in request.query_params:
        other_graph = _parse_address(request, "against", "against_run", "against_graph")
    return DrawnGraph(graph, other_graph, by)


def _parse_address(request: Request, experiment: str, run: str, graph: str) -> GraphAddress:
    """Parse the parameters of these names."""
    graph_id = get_parameter(request, graph)
    if not graph_id or len(graph_id) > _MAX_GRAPH_ID:
        raise BadParameterError(f"{graph}: expected an id of 1 to {_MAX_GRAPH_ID} characters")
    name = check_run_name(get_parameter(request, run))
    return parse_experiment_key(request, experiment), name, graph_id


def _parse_choice(
    request: Request, name: str, choices: Sequence[str], default: str | None = None
) -> str:
    text = request.query_params.get(name, default) if default else get_parameter(request, name)
    if text not in choices:
        raise BadParameterError(f"{name}: {text[:40]!r}, expected one of {', '.join(choices)}")
    return text


def _parse_ratio(request: Request) -> float:
    text = get_parameter(request, "ratio")
    least, maximum = _RATIO_BOUNDS
    if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,6})?", text) or not least <= float(text) <= maximum:
        raise BadParameterError(
            f"ratio: {text[:40]!r}, expected a number from {least} to {maximum}"
        )
    return float(text)


def _parse_width(request: Request) -> float:
    return (
        parse_integer(request, "width", *_WIDTH_BOUNDS)
        if "width" in request.query_params
        else DEFAULT_WIDTH
    )


def _parse_expanded(request: Request) -> list[str] | None:
    """Parse the unfolded groups; None, for as many as fit, if missing."""
    text = request.query_params.get("expanded")
    if text is None:
        return None
    parts = text.split(",") if text else []
    if len(parts) > _MAX_EXPANDED or not all(_GROUP_ID.fullmatch(part) for part in parts):
        raise BadParameterError(f"expanded: expected at most {_MAX_EXPANDED} ids such as g.0.2")
    return parts


def _parse_group(request: Request, name: str) -> str | None:
    text = request.query_params.get(name)
    if text is not None and not _GROUP_ID.fullmatch(text):
        raise BadParameterError(f"{name}: expected an id such as g.0.2")
    return text


def _parse_box(request: Request, name: str) -> str:
    text = get_parameter(request, name)
    if not _BOX_ID.fullmatch(text):
        raise BadParameterError(f"{name}: expected an id such as g.0.2 or n17")
    return text


def _parse_shown(request: Request) -> dict[str, int]:
    text = request.query_params.get("shown", "")
    parts = text.split(",") if text else []
    if len(parts) > _MAX_EXPANDED or not all(_BLOCK_CHOICE.fullmatch(part) for part in parts):
        raise BadParameterError(f"shown: expected at most {_MAX_EXPANDED} pairs such as g.0.2:5")
    return {ident: int(block) for ident, block in (part.split(":") for part in parts)}


_MAX_STEM: Final = 80


class Drawing(msgspec.Struct, frozen=True):
    """A file to save."""

    name: str
    """File name."""
    type: str
    """Media type."""
    text: str
    """Content."""


def draw_svg(view: DagView, name: str, *, dark: bool) -> Drawing:
    """Draw the view of the graph ``name`` as SVG."""
    return Drawing(f"{_make_stem(name)}.svg", "image/svg+xml", draw_view_file(view, name, dark))


def write_dot(view: DagView, name: str) -> Drawing:
    """Write the view of the graph ``name`` for Graphviz."""
    return Drawing(f"{_make_stem(name)}.dot", "text/vnd.graphviz", format_view_dot(view, name))


def _make_stem(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:_MAX_STEM]
