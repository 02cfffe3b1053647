"""Routes of the server next to Streamlit's pages: component data, documentation, fonts and icon."""

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
from graphviz_dash.app.hosting.static_files import StaticFilesMiddleware
from graphviz_dash.app.hosting.switch import is_plain
from graphviz_dash.app.hosting.upload_limit import UploadLimit
from graphviz_dash.features.perfetto.page import local_perfetto

PAGES: Final = Path(__file__).parents[1] / "script.py"
"""The script that Streamlit runs for each visitor and each interaction."""

ASSETS: Final = Path(__file__).parents[2] / "ui" / "assets"


def middleware() -> list[Middleware]:
    """What requests pass through, the first of it first."""
    guard = [Middleware(Guard), Middleware(UploadLimit)]
    if is_plain():
        return guard
    return [*guard, Middleware(StaticFilesMiddleware), Middleware(DocumentMiddleware)]


def routes() -> list[BaseRoute]:
    """All routes: component data, a Perfetto UI, the documentation, fonts and icon."""
    return [
        Route("/api/{which:path}", _Components()),
        *local_perfetto.routes(),
        *documentation.routes(),
        Mount("/assets", StaticFiles(directory=ASSETS)),
        Route("/favicon.png", _icon),
        Route("/overview", _to_overview),
    ]


class _Components:
    """The components' routes. They are imported with the first request, and all of the analysis
    with them: the server answers before."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from graphviz_dash.app.hosting.component_routes import ROUTER

        await ROUTER(scope, receive, send)


async def _icon(_: Request) -> FileResponse:
    """The icon of the browser's tab in place of Streamlit's. Named by the script of a page it would
    have to go through numpy and Pillow there, which take 0.1 s to import."""
    return FileResponse(ASSETS / "icon.png")


async def _to_overview(_: Request) -> RedirectResponse:
    """The overview is the start page, which Streamlit serves at the root alone."""
    return RedirectResponse("/")
