"""Routes of all components under ``/api/``. Each route validates its own parameters."""

from __future__ import annotations

from typing import Final

from starlette.routing import Router

from graphviz_dash.ui.components import dag, perfetto, timeline

ROUTER: Final = Router([*dag.routes(), *timeline.routes(), *perfetto.routes()])
