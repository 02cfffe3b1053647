"""Buttons that open the trace of an experiment in Perfetto, or download it.

Windows pass the trace by messages. Nothing is uploaded, and no other host is contacted before the
reader clicks the button of the public UI.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final
from urllib.parse import urlencode, urlsplit

from graphviz_dash.errors import InputError
from graphviz_dash.features.perfetto.page.component.api import (
    TRACE_PATH,
    build_routes,
    make_file_stem,
)
from graphviz_dash.features.perfetto.page.local_perfetto import LOCAL_UI_PATH, find_local_ui
from graphviz_dash.features.perfetto.trace.excerpt import FULL_EXPERIMENT, TracePart, extract_part
from graphviz_dash.features.perfetto.trace.run_alignment import align_runs
from graphviz_dash.ui.components.component_data import PerfettoData, to_plain_data
from graphviz_dash.ui.components.creation import create_component
from graphviz_dash.ui.state.store import STORE

__all__ = ["TracePart", "build_routes", "get_public_ui", "render_perfetto_buttons"]

PUBLIC_UI: Final = "https://ui.perfetto.dev"
UI_VARIABLE: Final = "GRAPHVIZ_DASH_PERFETTO_UI"
"""Environment variable for another Perfetto UI."""

_SCRIPT: Final = Path(__file__).with_name("perfetto.js")
_TIMEOUT_MS: Final = 30_000
_MARGIN_SHARE: Final = 0.04
"""Margin around the first step, as a share of it."""

_HTML: Final = """
<div class="perfetto">
  <div class="row">
    <button class="public primary" type="button"></button>
    <button class="local" type="button" hidden>Open local UI</button>
    <a class="download native" download>Download .pftrace</a>
    <a class="download chrome" download>Download Chrome JSON</a>
  </div>
  <p class="status" role="status" aria-live="polite" hidden></p>
  <div class="going" hidden><progress max="1" aria-label="Writing the trace"></progress>
    <button class="cancel" type="button">Cancel</button></div>
</div>
"""


def render_perfetto_buttons(
    experiment_key: str,
    part: TracePart = FULL_EXPERIMENT,
    *,
    label: str = "Open in Perfetto",
    small: bool = False,
    key: str = "perfetto",
    timeout_ms: int = _TIMEOUT_MS,
) -> None:
    """Show the buttons for a part of an experiment.

    Args:
        experiment_key: key of the experiment in the store.
        part: part to open.
        label: label of the main button, followed by the host of the UI.
        small: small buttons in one row.
        key: key of the widget.
        timeout_ms: time to wait for Perfetto before showing an error.

    Raises:
        UnknownKeyError: nothing is open under the key.
        InputError: the experiment has no such part or no trace, or UI_VARIABLE holds no address.
    """
    experiment = STORE.load_experiment_of_key(experiment_key)
    view = _build_initial_view(_find_first_step(experiment_key, part))
    public = get_public_ui()
    stem = make_file_stem(f"{experiment.name} {part.description}")
    create_component(_SCRIPT, _HTML)(
        data=to_plain_data(
            PerfettoData(
                path=TRACE_PATH,
                trace=_build_query(experiment_key, part, "pftrace.gz"),
                native=_build_query(experiment_key, part, "pftrace"),
                chrome=_build_query(experiment_key, part, "json"),
                stem=stem,
                title=f"{experiment.name} {part.description}".strip(),
                label=label,
                small=small,
                public=f"{public}/#!/?{view}",
                host=urlsplit(public).netloc,
                # The viewer's address: the start page of this build looks for its own trace.
                local=f"{LOCAL_UI_PATH}/#!/viewer?{view}" if find_local_ui() else None,
                timeout=timeout_ms,
            )
        ),
        key=key,
    )


def get_public_ui() -> str:
    """Return the address of the public Perfetto UI, without a final slash.

    Raises:
        InputError: UI_VARIABLE holds something else than an http or https address.
    """
    address = os.environ.get(UI_VARIABLE, "").strip() or PUBLIC_UI
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        usable = False
    if not usable:
        raise InputError(UI_VARIABLE, repr(address), "an http or https address", "Unset it.")
    return address.partition("#")[0].rstrip("/")


def _find_first_step(key: str, part: TracePart) -> tuple[int, int] | None:
    """Add a margin; None to show the entire part."""
    if part.graph is not None or (part.runs and all(step is not None for _, step in part.runs)):
        return None
    first, last = STORE.derive(
        key,
        ("perfetto first step", part),
        lambda made: align_runs(extract_part(made, part)).first_step,
    )
    margin = round((last - first) * _MARGIN_SHARE)
    return max(0, first - margin), last + margin


def _build_initial_view(span: tuple[int, int] | None) -> str:
    """Expand all tracks and show ``span``, or everything."""
    expand = [{"id": "dev.perfetto.ExpandTracksByRegex", "args": ["."]}]
    viewport = {} if span is None else {"visStart": span[0], "visEnd": span[1]}
    commands = json.dumps(expand, separators=(",", ":"))
    return urlencode({"hideSidebar": "true", **viewport, "startupCommands": commands})


def _build_query(key: str, part: TracePart, trace_format: str) -> str:
    parameters = [("experiment", key), ("format", trace_format)]
    for run, step in part.runs:
        parameters += [("run", run), ("step", "" if step is None else str(step))]
    if part.graph is not None:
        parameters.append(("graph", part.graph))
    return urlencode(parameters)
