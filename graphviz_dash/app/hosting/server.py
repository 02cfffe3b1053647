"""Define middleware and routes besides Streamlit's pages.

Routes serve component data, documentation, fonts and icon.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from graphviz_dash.app.hosting import documentation
from graphviz_dash.app.hosting.document import DocumentMiddleware
from graphviz_dash.app.hosting.guard import Guard
from graphviz_dash.app.hosting.message_limit import MessageLimit
from graphviz_dash.app.hosting.static_files import StaticFilesMiddleware
from graphviz_dash.app.hosting.switch import is_plain
from graphviz_dash.app.hosting.upload_limit import UploadLimit
from graphviz_dash.features.perfetto.page import local_perfetto

PAGES: Final = Path(__file__).parents[1] / "script.py"
"""Script that Streamlit runs for each visitor and each interaction."""

ASSETS: Final = Path(__file__).parents[2] / "ui" / "assets"


def list_middleware() -> list[Middleware]:
    """List the middleware, outermost first."""
    guard = [Middleware(Guard), Middleware(UploadLimit), Middleware(MessageLimit)]
    if is_plain():
        return guard
    return [*guard, Middleware(StaticFilesMiddleware), Middleware(DocumentMiddleware)]


def list_routes() -> list[BaseRoute]:
    """List the routes: component data, a Perfetto UI, documentation, fonts and icon."""
    return [
        Route("/api/{which:path}", _Components()),
        *local_perfetto.build_routes(),
        *documentation.list_routes(),
        Mount("/assets", StaticFiles(directory=ASSETS)),
        Route("/favicon.png", _serve_icon),
        Route("/overview", _redirect_to_overview),
    ]


class _Components:
    """Routes of the components, imported with the analysis on the first request."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from graphviz_dash.app.hosting.component_routes import ROUTER

        await ROUTER(scope, receive, send)


async def _serve_icon(_: Request) -> FileResponse:
    """Serve the tab icon in place of Streamlit's.

    Setting it in a page script would import numpy and Pillow, 0.1 s.
    """
    return FileResponse(ASSETS / "icon.png")


async def _redirect_to_overview(_: Request) -> RedirectResponse:
    """Redirect to the start page, which Streamlit serves only at the root."""
    return RedirectResponse("/")
