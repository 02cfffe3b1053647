"""Limit the upload memory per visitor, because Streamlit keeps uploads in memory."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from graphviz_dash.ui.state.held_uploads import HELD_UPLOADS, MAX_ALL_BYTES, MAX_VISITOR_BYTES
from graphviz_dash.ui.state.presence import VISITOR_HEADER

_ROUTE: Final = "/_stcore/upload_file/"
_UNKNOWN: Final = ""
"""Visitor id without a cookie; all such visitors share one limit."""


class UploadLimit:
    """Middleware that rejects uploads beyond the memory limit."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; reject an upload over the limit with 413."""
        path = scope.get("path", "")
        if scope["type"] != "http" or not path.startswith(_ROUTE):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        visitor = headers.get(VISITOR_HEADER, _UNKNOWN)
        if scope["method"] == "DELETE":
            HELD_UPLOADS.unregister(visitor, path)
        if scope["method"] != "PUT":
            await self._app(scope, receive, send)
            return
        length = headers.get("content-length", "")
        if not length.isdecimal() or not HELD_UPLOADS.register(visitor, path, int(length)):
            limit = (
                f"{MAX_VISITOR_BYTES >> 30} GiB per visitor and {MAX_ALL_BYTES >> 30} GiB in total"
            )
            refusal = f"Refused: uploads are limited to {limit}. Remove files first.\n"
            await PlainTextResponse(refusal, 413)(scope, receive, send)
            return

        async def drop_if_failed(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] >= 400:
                HELD_UPLOADS.unregister(visitor, path)
            await send(message)

        await self._app(scope, receive, drop_if_failed)
