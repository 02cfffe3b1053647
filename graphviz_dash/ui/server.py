"""What the server answers beside Streamlit's own pages: the components' data, fonts and icon."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from graphviz_dash.ui.components import dag, perfetto, timeline
from graphviz_dash.ui.shell import Shell

PAGES: Final = Path(__file__).parent / "script.py"
"""The script that Streamlit runs for each visitor and each interaction."""

MIDDLEWARE: Final = (Middleware(Shell),)

ASSETS: Final = Path(__file__).parent / "assets"


def routes() -> list[BaseRoute]:
    """All routes; each component brings its own and checks its own parameters."""
    return [
        *dag.routes(),
        *timeline.routes(),
        *perfetto.routes(),
        Mount("/assets", StaticFiles(directory=ASSETS)),
        Route("/overview", _to_overview),
    ]


async def _to_overview(_: Request) -> RedirectResponse:
    """The overview is the start page, which Streamlit serves at the root alone."""
    return RedirectResponse("/")
