"""The dashboard as benchmarks/timeline.py drives it: its experiment has traces of any size.

What is measured is the dashboard, not the reading of traces: these are made in memory, before the
server answers. GET /forget drops what was derived from them, so that a first view can be repeated.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

import streamlit as st
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from timeline_traces import large_experiment

from graphviz_dash.ui import store
from graphviz_dash.ui.jobs import JOBS
from graphviz_dash.ui.server import MIDDLEWARE, PAGES, routes
from graphviz_dash.ui.sockets import at_once

_read = store.load_experiment
_made = large_experiment(
    _read(Path(os.environ["TIMELINE_SAMPLE"])),
    int(os.environ["TIMELINE_SLICES"]),
    synthetic=os.environ["TIMELINE_TRACE"] == "synthetic",
)
store.load_experiment = lambda path: _made if path == _made.path else _read(path)
_KEY = store.STORE.register(_made.path)
store.STORE.experiment(_KEY)


def _forget(_: Request) -> PlainTextResponse:
    store.STORE.forget(_KEY)
    store.STORE.experiment(_KEY)
    JOBS.clear()
    return PlainTextResponse("forgotten")


app = st.App(
    PAGES,
    routes=[Route("/forget", _forget), *routes()],
    middleware=MIDDLEWARE,
    lifespan=at_once,
)
