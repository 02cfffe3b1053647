"""Routes of all components under ``/api/``. Each route validates its own parameters."""

from __future__ import annotations

from typing import Final

from starlette.routing import Router

from graphviz_dash.app.palette import api as palette
from graphviz_dash.features.graph.page import component as dag
from graphviz_dash.features.perfetto.page import component as perfetto
from graphviz_dash.features.timeline.page import component as timeline

ROUTER: Final = Router(
    [
        *dag.build_routes(),
        *timeline.build_routes(),
        *perfetto.build_routes(),
        *palette.build_routes(),
    ]
)
