"""Convert an exception to the failure stored in a bundle."""

from __future__ import annotations

import linecache
import traceback
from pathlib import Path
from typing import Final

from collectors.collection.paths import GENERATED, shorten_path
from graphviz_dash.errors import GraphvizDashError
from graphviz_dash.model.run import COLLECTOR_ERROR, Failure, Pass

_OURS = str(Path(__file__).parents[1])
_WORKLOADS = str(Path(__file__).parents[1] / "workloads")

_MAX_COMMENT_DISTANCE: Final = 60


def describe_failure(error: BaseException, during: Pass) -> Failure:
    """Describe the root cause: leaving a broken capture raises a second error."""
    cause = error
    while cause.__context__ is not None and not cause.__suppress_context__:
        cause = cause.__context__
    return Failure(
        stage=during,
        error=COLLECTOR_ERROR if isinstance(cause, GraphvizDashError) else type(cause).__name__,
        message=str(cause).strip(),
        location=_find_location(cause),
        traceback=_format_traceback(error) + _find_source_nodes(cause),
    )


def _format_traceback(error: BaseException) -> str:
    """Format like Python, with shortened paths."""

    def shorten(part: traceback.TracebackException) -> None:
        for frame in part.stack:
            frame.filename = shorten_path(frame.filename)
        for other in (part.__cause__, part.__context__):
            if other is not None:
                shorten(other)

    formatted = traceback.TracebackException.from_exception(error)
    shorten(formatted)
    return "".join(formatted.format())


def _find_source_nodes(error: BaseException) -> str:
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if GENERATED.search(frame.filename) and frame.lineno is not None:
            for number in range(frame.lineno - 1, max(0, frame.lineno - _MAX_COMMENT_DISTANCE), -1):
                line = linecache.getline(frame.filename, number).strip()
                if line.startswith("def "):
                    break
                if "Source Nodes: [" in line:
                    return f"{line}\n"
    return ""


def _find_location(error: BaseException) -> str | None:
    packages = ("/torch/", "/site-packages/", "/dist-packages/", "<frozen")
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        is_project_file = frame.filename.startswith(_OURS) and not frame.filename.startswith(
            _WORKLOADS
        )
        is_generated = GENERATED.search(frame.filename)
        if (
            not is_project_file
            and not is_generated
            and not any(part in frame.filename for part in packages)
        ):
            return f"{shorten_path(frame.filename)}:{frame.lineno}"
    return None
