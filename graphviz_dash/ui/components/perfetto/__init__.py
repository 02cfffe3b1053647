"""The buttons that open an experiment's trace in Perfetto, or download it.

The browser hands the trace over itself, by messages between windows: nothing is uploaded, and no
other host is asked for anything before the reader clicks on the public UI's button.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import streamlit as st

from graphviz_dash.errors import InputError
from graphviz_dash.exports.alignment import align
from graphviz_dash.ui.components.perfetto.api import (
    LOCAL_UI_PATH,
    TRACE_PATH,
    file_stem,
    local_ui,
    routes,
)
from graphviz_dash.ui.store import STORE

__all__ = ["perfetto_button", "public_ui", "routes"]

PUBLIC_UI: Final = "https://ui.perfetto.dev"
UI_VARIABLE: Final = "GRAPHVIZ_DASH_PERFETTO_UI"
"""Names the environment variable with the address of another Perfetto UI."""

_FOLDER: Final = Path(__file__).parent
_TIMEOUT_MS: Final = 30_000
_MARGIN: Final = 0.04
"""Of the step that the UI shows first, left free on both sides."""

_HTML: Final = """
<div class="perfetto">
  <div class="row">
    <button class="public primary" type="button"></button>
    <button class="local" type="button" hidden>Open local UI</button>
    <a class="download native" download>Download .pftrace</a>
    <a class="download chrome" download>Download Chrome JSON</a>
  </div>
  <p class="status" role="status" aria-live="polite" hidden></p>
</div>
"""


def perfetto_button(
    experiment_key: str, *, key: str = "perfetto", timeout_ms: int = _TIMEOUT_MS
) -> None:
    """Shows the buttons for the experiment of ``experiment_key``.

    Args:
        experiment_key: key of the experiment in the store.
        key: key of the widget.
        timeout_ms: how long Perfetto may take to answer before the reader is told.

    Raises:
        UnknownKeyError: nothing is open under the key.
        InputError: the experiment has no trace, or UI_VARIABLE holds no address.
    """
    experiment = STORE.experiment(experiment_key)
    first, last = STORE.derived(
        experiment_key, "perfetto first step", lambda made: align(made).first_step
    )
    margin = round((last - first) * _MARGIN)
    view = _opening_view(max(0, first - margin), last + margin)
    public = public_ui()
    stem = file_stem(experiment.name)
    _component()(
        data={
            "trace": _trace_address(experiment_key, "pftrace.gz"),
            "native": _trace_address(experiment_key, "pftrace"),
            "chrome": _trace_address(experiment_key, "json"),
            "stem": stem,
            "title": experiment.name,
            "public": f"{public}/#!/?{view}",
            "host": urlsplit(public).netloc,
            # The viewer's address: at the bare one this build looks for a trace of its own.
            "local": f"{LOCAL_UI_PATH}/#!/viewer?{view}" if local_ui() else None,
            "timeout": timeout_ms,
        },
        key=key,
    )


def public_ui() -> str:
    """The address of the Perfetto UI that is not ours, without a slash at its end.

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


def _opening_view(begin: int, end: int) -> str:
    """What the UI shows first: every track open, and the first step of all runs."""
    expand = [{"id": "dev.perfetto.ExpandTracksByRegex", "args": ["."]}]
    return urlencode(
        {
            "hideSidebar": "true",
            "visStart": begin,
            "visEnd": end,
            "startupCommands": json.dumps(expand, separators=(",", ":")),
        }
    )


def _trace_address(key: str, form: str) -> str:
    return f"{TRACE_PATH}?{urlencode({'experiment': key, 'format': form})}"


@cache
def _component() -> Any:
    return st.components.v2.component(
        "graphviz_dash_perfetto",
        html=_HTML,
        css=(_FOLDER / "perfetto.css").read_text(encoding="utf-8"),
        js=(_FOLDER / "perfetto.js").read_text(encoding="utf-8"),
    )
