"""Route of the palette: GET /api/find with an experiment's key and a text."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.routing import Route

from graphviz_dash.app.palette.search import Hits, find_hits
from graphviz_dash.ui.components.requests import (
    BadParameterError,
    get_parameter,
    parse_experiment_key,
    wrap_handler,
)
from graphviz_dash.ui.state.store import STORE

_MAX_LENGTH: Final = 200


def build_routes() -> list[Route]:
    """Return the route that finds nodes and kernels."""
    return [Route("/api/find", wrap_handler(_handle_find), methods=["GET"])]


def _handle_find(request: Request) -> Hits:
    text = get_parameter(request, "q")
    if len(text) > _MAX_LENGTH:
        raise BadParameterError(f"q: expected at most {_MAX_LENGTH} characters")
    return find_hits(STORE.load_experiment_of_key(parse_experiment_key(request)).runs, text)
