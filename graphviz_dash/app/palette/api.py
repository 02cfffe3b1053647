"""Routes of the palette.

- ``GET /api/find``: nodes and kernels of an experiment, for its key and a text
- ``GET /api/experiments``: names of the visitor's experiments, for a text
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, Literal

import polars as pl
from msgspec import Struct
from starlette.requests import Request
from starlette.routing import Route

from graphviz_dash.analysis.trace.kernel_names import shorten_name
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.run import Run
from graphviz_dash.ui.components.requests import (
    BadParameterError,
    get_parameter,
    parse_experiment_key,
    wrap_handler,
)
from graphviz_dash.ui.state.catalogue import list_experiments
from graphviz_dash.ui.state.presence import VISITOR_HEADER
from graphviz_dash.ui.state.store import STORE

_MAX_LENGTH: Final = 200


def build_routes() -> list[Route]:
    """Return the routes that find nodes, kernels and experiments."""
    return [
        Route("/api/find", wrap_handler(_handle_find), methods=["GET"]),
        Route("/api/experiments", wrap_handler(_handle_experiments), methods=["GET"]),
    ]


def _handle_find(request: Request) -> Hits:
    text = _get_text(request)
    return find_hits(STORE.load_experiment_of_key(parse_experiment_key(request)).runs, text)


def _handle_experiments(request: Request) -> ExperimentNames:
    # The guard sets the header from the cookie; no visitor has an empty id.
    visitor = request.headers.get(VISITOR_HEADER, "")
    names = list_experiments(visitor, reuses_search=True).entries
    return find_experiments(names, _get_text(request))


def _get_text(request: Request) -> str:
    text = get_parameter(request, "q")
    if len(text) > _MAX_LENGTH:
        raise BadParameterError(f"q: expected at most {_MAX_LENGTH} characters")
    return text


_MAX_HITS: Final = 8
_MAX_NODES: Final = 200_000
_MAX_NAMES: Final = 40
"""The palette shows as many rows."""


class ExperimentNames(Struct, frozen=True):
    """Names of the first matching experiments."""

    names: list[str]


class Hit(Struct, frozen=True):
    """A node or kernel whose name matches."""

    kind: Literal["node", "kernel"]
    title: str
    """Short name."""
    note: str
    """Location: run and graph."""
    page: str
    """Page that shows it."""
    query: dict[str, str]
    """Parameters of the page's address, without the experiment."""


class Hits(Struct, frozen=True):
    """Results of a search, nodes first."""

    hits: list[Hit]


def find_experiments(names: Iterable[str], text: str) -> ExperimentNames:
    """Find the first of ``names`` that contain each word of ``text``, in any case.

    The word "experiment" matches all, because the rows of the palette contain it.
    """
    words = text.lower().split()
    matches = (
        name for name in names if all(word in f"experiment {name.lower()}" for word in words)
    )
    return ExperimentNames(list(islice(matches, _MAX_NAMES)))


def find_hits(runs: Sequence[Run], text: str) -> Hits:
    """Find the first nodes and kernels whose name contains ``text``, in any case.

    ``#12`` finds the nodes with index 12.
    """
    query = text.strip().lower()
    if not query:
        return Hits([])
    nodes = islice(_iterate_nodes(runs, query), _MAX_HITS)
    kernels = islice(_iterate_kernels(runs, query), _MAX_HITS)
    return Hits([*nodes, *kernels])


def _iterate_nodes(runs: Sequence[Run], query: str) -> Iterator[Hit]:
    index = int(query[1:]) if query[:1] == "#" and query[1:].isdecimal() else None
    remaining = _MAX_NODES
    for run in runs:
        for graph in run.graphs:
            remaining -= len(graph.nodes)
            if remaining < 0:
                return
            for node in graph.nodes:
                if node.index == index or (index is None and query in node.label.lower()):
                    yield _build_node_hit(run, graph, node.index, node.label)


def _build_node_hit(run: Run, graph: CapturedGraph, index: int, label: str) -> Hit:
    return Hit(
        "node",
        f"#{index} {shorten_name(escape_control_characters(label))}",
        escape_control_characters(f"{run.name}, {graph.id}"),
        "graph",
        {"run": run.name, "graph": graph.id, "node": str(index)},
    )


def _iterate_kernels(runs: Sequence[Run], query: str) -> Iterator[Hit]:
    names: set[str] = set()
    for run in runs:
        if run.replay_trace is None:
            continue
        rows = run.replay_trace.gpu.select(pl.col("name").cast(pl.String)).with_row_index("row")
        matches = rows.filter(
            pl.col("name").str.to_lowercase().str.contains(query, literal=True)
        ).unique("name", keep="first", maintain_order=True)
        for row, name in matches.iter_rows():
            if name in names:
                continue
            names.add(name)
            yield Hit(
                "kernel",
                shorten_name(escape_control_characters(name)),
                escape_control_characters(run.name),
                "timeline",
                {"select": f"{run.name}/g{row}"},
            )
