"""Limit the upload memory per visitor, because Streamlit keeps uploads in memory."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from graphviz_dash.ui.state.held_uploads import HELD_UPLOADS, MAX_ALL_BYTES, MAX_VISITOR_BYTES
from graphviz_dash.ui.state.presence import VISITOR_HEADER

_ROUTE: Final = "/_stcore/upload_file/"
_NO_VISITOR: Final = "Refused: the browser sends no cookie of this dashboard. Reload the page.\n"


class _TooLargeError(Exception):
    """The received bytes exceed the limit."""


class UploadLimit:
    """Middleware that rejects uploads beyond the memory limit."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; reject an upload over the limit with 413, and one without our cookie
        with 403."""
        path = scope.get("path", "")
        is_upload = scope["type"] == "http" and path.startswith(_ROUTE)
        if not is_upload or scope["method"] != "PUT":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        visitor = headers.get(VISITOR_HEADER)
        if visitor is None:
            await PlainTextResponse(_NO_VISITOR, 403)(scope, receive, send)
            return
        receipt = HELD_UPLOADS.begin(visitor, path)
        status: int | None = None

        async def receive_counted() -> Message:
            message = await receive()
            if not HELD_UPLOADS.add(receipt, len(message.get("body", b""))):
                raise _TooLargeError
            return message

        async def send_noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            length = headers.get("content-length", "")
            if length.isdecimal() and not HELD_UPLOADS.has_room(receipt, int(length)):
                raise _TooLargeError
            await self._app(scope, receive_counted, send_noted)
        except _TooLargeError:
            await _refuse(scope, receive, send_noted)
        finally:
            # Also if the visitor cancels, which raises here.
            has_file = status is not None and 200 <= status < 300
            HELD_UPLOADS.finish(receipt, has_file=has_file)


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    limit = f"{MAX_VISITOR_BYTES >> 30} GiB per visitor and {MAX_ALL_BYTES >> 30} GiB in total"
    refusal = f"Refused: uploads are limited to {limit}. Remove files first.\n"
    await PlainTextResponse(refusal, 413)(scope, receive, send)
