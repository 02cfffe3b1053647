"""How much a visitor may have in the server's memory, where Streamlit keeps what is uploaded."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from graphviz_dash.ui.state.held_uploads import HELD, MAX_ALL_BYTES, MAX_VISITOR_BYTES
from graphviz_dash.ui.state.presence import VISITOR_HEADER

_ROUTE: Final = "/_stcore/upload_file/"
_UNKNOWN: Final = ""
"""Who has no cookie; all of them share what one visitor may have."""


class UploadLimit:
    """Middleware that refuses uploads beyond what visitors may have in memory."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, an upload that is too much with 413."""
        path = scope.get("path", "")
        if scope["type"] != "http" or not path.startswith(_ROUTE):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        visitor = headers.get(VISITOR_HEADER, _UNKNOWN)
        if scope["method"] == "DELETE":
            HELD.drop(visitor, path)
        if scope["method"] != "PUT":
            await self._app(scope, receive, send)
            return
        length = headers.get("content-length", "")
        if not length.isdecimal() or not HELD.take(visitor, path, int(length)):
            most = f"{MAX_VISITOR_BYTES >> 30} GiB, all together {MAX_ALL_BYTES >> 30}"
            refusal = f"Refused: a visitor may have uploaded {most}. Remove files first.\n"
            await PlainTextResponse(refusal, 413)(scope, receive, send)
            return

        async def looking(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] >= 400:
                HELD.drop(visitor, path)
            await send(message)

        await self._app(scope, receive, looking)
