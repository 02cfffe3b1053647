"""Streamlit's own scripts, styles and fonts, sent at once.

A first page asks for some eighty of them. Streamlit has threads look for each file, open it and
read it in pieces, 3 ms a file and more while another thread computes; they are small, so one look
at what there is is enough, and one read of each at a time, 0.03 ms. The system keeps them, and so
does each browser: 10 MB that the server would have for good.
"""

from __future__ import annotations

import mimetypes
from functools import cache
from pathlib import Path
from typing import Final

import streamlit
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

_FOLDER: Final = Path(streamlit.__file__).parent / "static"
_HEADERS: Final = {"Cache-Control": "public, immutable, max-age=31536000"}
"""Their names have a hash of their content. Streamlit's own words for them."""


class StaticFilesMiddleware:
    """Middleware that answers for these files; everything else passes as it is."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request for a whole file."""
        file = _files().get(scope["path"]) if scope["type"] == "http" else None
        if (
            file is None
            or scope["method"] != "GET"
            or any(k == b"range" for k, _ in scope["headers"])
        ):
            await self._app(scope, receive, send)
            return
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        answer = Response(file.read_bytes(), media_type=kind, headers=_HEADERS)
        await answer(scope, receive, send)


@cache
def _files() -> dict[str, Path]:
    """The files by the path of their address; nothing else can be asked for."""
    listed = (_FOLDER / "static").rglob("*")
    return {f"/{path.relative_to(_FOLDER).as_posix()}": path for path in listed if path.is_file()}
