"""Routes of the Perfetto buttons: the trace of a part of an experiment.

Parameter checks and responses: graphviz_dash.ui.components.requests.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from graphviz_dash.exports.files import ExportSummary
from graphviz_dash.features.perfetto.trace.chrome import export_chrome
from graphviz_dash.features.perfetto.trace.excerpt import FULL_EXPERIMENT, TracePart, extract_part
from graphviz_dash.model.run import Experiment
from graphviz_dash.ui.components.requests import (
    BadParameterError,
    check_run_name,
    parse_experiment_key,
    wrap_handler,
)
from graphviz_dash.ui.state.jobs import JOBS
from graphviz_dash.ui.state.scratch import SCRATCH
from graphviz_dash.ui.state.store import STORE, UnknownKeyError

TRACE_PATH: Final = "/api/perfetto/trace"

_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_MAX_RUNS: Final = 64
_MAX_GRAPH: Final = 255
_WAIT_S: Final = 0.25
_UNSAFE_CHARACTERS: Final = re.compile(r"[^A-Za-z0-9._-]+")


class TraceFormat(Struct, frozen=True):
    """A format of the exported trace."""

    suffix: str
    media_type: str
    export: Callable[[Experiment, Path], ExportSummary]


def _export_perfetto(experiment: Experiment, file: Path) -> ExportSummary:
    # Imported late: Perfetto's classes use 7 MB of memory for the life of the server.
    from graphviz_dash.features.perfetto.trace.perfetto import export_perfetto

    return export_perfetto(experiment, file)


FORMATS: Final = {
    "pftrace": TraceFormat(".pftrace", "application/octet-stream", _export_perfetto),
    "pftrace.gz": TraceFormat(".pftrace.gz", "application/gzip", _export_perfetto),
    "json": TraceFormat(".json", "application/json", export_chrome),
    "json.gz": TraceFormat(".json.gz", "application/gzip", export_chrome),
}


def build_routes() -> list[Route]:
    """Return the routes."""
    return [
        Route(TRACE_PATH, wrap_handler(_handle_file), methods=["GET"]),
        Route(f"{TRACE_PATH}/begin", wrap_handler(_handle_begin), methods=["POST"]),
        Route(f"{TRACE_PATH}/cancel", wrap_handler(_handle_cancel), methods=["POST"]),
    ]


def export_trace(key: str, trace_format: str, part: TracePart = FULL_EXPERIMENT) -> ExportSummary:
    """Return the exported trace, written once per format of FORMATS.

    Raises:
        UnknownKeyError: no such experiment.
        InputError: no such part, no trace, or the experiment is unreadable.
    """
    return STORE.derive(
        key,
        ("perfetto", trace_format, part),
        lambda made: _write_trace(extract_part(made, part), key, FORMATS[trace_format]),
    )


def make_file_stem(name: str) -> str:
    """Make a file stem that is valid on all systems."""
    return _UNSAFE_CHARACTERS.sub("-", name).strip("-.")[:80] or "trace"


def _write_trace(experiment: Experiment, key: str, trace_format: TraceFormat) -> ExportSummary:
    # A unique name: a response may still be reading the file of an earlier export.
    name = f"{secrets.token_hex(8)}{trace_format.suffix}"
    return trace_format.export(experiment, SCRATCH.create_subfolder(key) / name)


class ExportRequest(Struct, frozen=True):
    """Part of an experiment in a format of FORMATS."""

    key: str
    trace_format: str
    part: TracePart

    @property
    def job_key(self) -> tuple[object, ...]:
        """Key of the export job."""
        return ("perfetto", self.key, self.trace_format, self.part)


def _parse_request(request: Request) -> ExportRequest:
    parameters = request.query_params
    forms = parameters.getlist("format") or ["pftrace"]
    form = forms[0]
    if len(forms) != 1 or form not in FORMATS:
        raise BadParameterError(f"format: expected one of {', '.join(FORMATS)}")
    names = [check_run_name(name) for name in parameters.getlist("run")]
    numbers = parameters.getlist("step") or [""] * len(names)
    if len(names) > _MAX_RUNS or len(numbers) != len(names):
        raise BadParameterError("step: expected one for each run, or none")
    if any(number and not _NUMBER.fullmatch(number) for number in numbers):
        raise BadParameterError("step: expected a number or nothing")
    graph = parameters.get("graph")
    if graph is not None and (len(names) != 1 or not 0 < len(graph) <= _MAX_GRAPH):
        raise BadParameterError("graph: expected the id of one, and its run")
    steps = [int(number) if number else None for number in numbers]
    part = TracePart(tuple(zip(names, steps, strict=True)), graph)
    return ExportRequest(parse_experiment_key(request), form, part)


def _handle_begin(request: Request) -> msgspec.Struct:
    """Start the export, or return its progress."""
    export = _parse_request(request)
    # Raises UnknownKeyError before a job is started.
    STORE.load_experiment_of_key(export.key)
    act = partial(export_trace, export.key, export.trace_format, export.part)
    retry = "again" in request.query_params
    return JOBS.start(export.job_key, [("Writing the trace", act)], restart=retry).wait(_WAIT_S)


def _handle_cancel(request: Request) -> msgspec.Struct:
    job = JOBS.get_job(_parse_request(request).job_key)
    if job is None:
        raise UnknownKeyError("no export is in progress")
    job.cancel()
    return job.wait(_WAIT_S)


def _handle_file(request: Request) -> Response:
    export = _parse_request(request)
    written = export_trace(export.key, export.trace_format, export.part)
    name = f"{STORE.load_experiment_of_key(export.key).name} {export.part.description}"
    form = FORMATS[export.trace_format]
    return FileResponse(
        written.path,
        media_type=form.media_type,
        filename=f"{make_file_stem(name)}{form.suffix}",
        headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"},
    )
