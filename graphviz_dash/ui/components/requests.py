"""Parameter checks and JSON responses of the components' routes.

Routes bypass the sessions of pages, so every parameter is checked. Errors are ``{"error": {"code",
"message"}}`` with status 400 (bad parameter), 404 (not found) or 422 (unreadable bundle).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from graphviz_dash.errors import InputError, escape_control_characters
from graphviz_dash.ui.state.scratch import SCRATCH
from graphviz_dash.ui.state.store import UnknownKeyError

_KEY: Final = re.compile(r"[0-9a-f]{32}")
_MAX_NAME: Final = 255
_INTEGER: Final = re.compile(r"-?[0-9]{1,16}")


class BadParameterError(ValueError):
    """A request parameter is missing or invalid."""


def wrap_handler(
    handler: Callable[[Request], msgspec.Struct | Response],
) -> Callable[[Request], Response]:
    """Wrap ``handler`` as an endpoint that returns JSON, also for errors.

    The endpoint runs on a thread and never blocks the pages.
    """

    def endpoint(request: Request) -> Response:
        try:
            result = handler(request)
            return result if isinstance(result, Response) else _make_json_response(result, 200)
        except BadParameterError as problem:
            return _make_error_response(400, "bad-parameter", str(problem))
        except UnknownKeyError as problem:
            return _make_error_response(404, "not-found", str(problem.args[0]))
        except InputError as problem:
            return _make_error_response(422, "unreadable", SCRATCH.hide_paths(str(problem)))

    return endpoint


def _make_json_response(body: object, status: int) -> Response:
    return Response(
        msgspec.json.encode(body),
        status_code=status,
        media_type="application/json",
        headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"},
    )


def _make_error_response(status: int, code: str, message: str) -> Response:
    text = escape_control_characters(message)[:600]
    return _make_json_response({"error": {"code": code, "message": text}}, status)


def get_parameter(request: Request, name: str) -> str:
    """Return the value of a parameter that must occur once."""
    values = request.query_params.getlist(name)
    if len(values) != 1:
        raise BadParameterError(f"{name}: {len(values)} given, expected one")
    return values[0]


def parse_experiment_key(request: Request, name: str = "experiment") -> str:
    """Return the parameter ``name`` as a key of the store."""
    key = get_parameter(request, name)
    if not _KEY.fullmatch(key):
        raise BadParameterError(f"{name}: not a key")
    return key


def check_run_name(text: str) -> str:
    """Check the name of a run."""
    if not text or len(text) > _MAX_NAME:
        raise BadParameterError(f"run: expected a name of 1 to {_MAX_NAME} characters")
    return text


def parse_integer(request: Request, name: str, minimum: int, maximum: int) -> int:
    """Parse a parameter as an integer within bounds."""
    text = get_parameter(request, name)
    if not _INTEGER.fullmatch(text) or not minimum <= int(text) <= maximum:
        raise BadParameterError(
            f"{name}: {text[:40]!r}, expected an integer from {minimum} to {maximum}"
        )
    return int(text)
