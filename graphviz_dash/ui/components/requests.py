"""What the components' routes share: parameters checked one by one, and answers as JSON.

Routes bypass the pages' sessions, so every parameter is checked: experiments by opaque key, runs by
name within it, numbers within bounds. What is wrong is answered as ``{"error": {"code",
"message"}}`` with status 400 (a parameter), 404 (no such thing) or 422 (a bundle that cannot be
read).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from graphviz_dash.errors import InputError, printable
from graphviz_dash.ui.state.store import UnknownKeyError

_KEY: Final = re.compile(r"[0-9a-f]{32}")
_MAX_NAME: Final = 255
_INTEGER: Final = re.compile(r"-?[0-9]{1,16}")


class BadParameterError(ValueError):
    """A parameter of a request is missing or not what it should be."""


def answering(
    handler: Callable[[Request], msgspec.Struct | Response],
) -> Callable[[Request], Response]:
    """``handler`` as an endpoint that answers JSON, errors too; a response goes as it is. It is not
    a coroutine function, so it runs on a thread and never holds up the pages."""

    def endpoint(request: Request) -> Response:
        try:
            answer = handler(request)
            return answer if isinstance(answer, Response) else _json(answer, 200)
        except BadParameterError as problem:
            return _error(400, "bad-parameter", str(problem))
        except UnknownKeyError as problem:
            return _error(404, "not-found", str(problem.args[0]))
        except InputError as problem:
            return _error(422, "unreadable", str(problem))

    return endpoint


def _json(body: object, status: int) -> Response:
    return Response(
        msgspec.json.encode(body),
        status_code=status,
        media_type="application/json",
        headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"},
    )


def _error(status: int, code: str, message: str) -> Response:
    text = printable(message)[:600]
    return _json({"error": {"code": code, "message": text}}, status)


def one(request: Request, name: str) -> str:
    """The one value of a parameter."""
    values = request.query_params.getlist(name)
    if len(values) != 1:
        raise BadParameterError(f"{name}: {len(values)} given, expected one")
    return values[0]


def experiment_key(request: Request, name: str = "experiment") -> str:
    """The parameter ``name``: a key of the store."""
    key = one(request, name)
    if not _KEY.fullmatch(key):
        raise BadParameterError(f"{name}: not a key")
    return key


def checked_name(text: str) -> str:
    """``text`` as the name of a run."""
    if not text or len(text) > _MAX_NAME:
        raise BadParameterError(f"run: expected a name of 1 to {_MAX_NAME} characters")
    return text


def integer(request: Request, name: str, least: int, most: int) -> int:
    """A parameter as an integer within bounds."""
    text = one(request, name)
    if not _INTEGER.fullmatch(text) or not least <= int(text) <= most:
        raise BadParameterError(
            f"{name}: {text[:40]!r}, expected an integer from {least} to {most}"
        )
    return int(text)
