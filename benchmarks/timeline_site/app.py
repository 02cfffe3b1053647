"""The dashboard as benchmarks/timeline.py drives it: its experiment has traces of any size.

Traces are read before the server answers. GET /forget drops derived data, so that a first view can
be repeated.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

import streamlit as st
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from timeline_traces import written

from graphviz_dash.app.hosting.lifespan import lifespan
from graphviz_dash.app.hosting.server import PAGES, list_middleware, list_routes
from graphviz_dash.model.run import Experiment
from graphviz_dash.ui.state import store
from graphviz_dash.ui.state.jobs import JOBS

_read = store.load_experiment


def _large(sample: Path) -> Experiment:
    """Load an experiment with large traces, made by another process so that memory here is that of
    a dashboard."""
    recorded = _read(sample)
    maker = Path(__file__).parents[1] / "timeline_traces.py"
    settings = [os.environ["TIMELINE_SLICES"], os.environ["TIMELINE_TRACE"]]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, str(maker), str(sample), *settings, folder], check=True)
        runs = [written(run, Path(folder)) for run in recorded.runs]
    return replace(recorded, runs=tuple(run for run in runs if run.replay_trace is not None))


_made = _large(Path(os.environ["TIMELINE_SAMPLE"]))


def _load(path: Path, *, traces: bool = True) -> Experiment:
    return _made if path == _made.path else _read(path, traces=traces)


store.load_experiment = _load
store.STORE.load_experiment_of_key(store.STORE.register(_made.path))


def _forget(_: Request) -> PlainTextResponse:
    store.STORE.close(_made.path)
    store.STORE.load_experiment_of_key(store.STORE.register(_made.path))
    JOBS.clear()
    return PlainTextResponse("forgotten")


app = st.App(
    PAGES,
    routes=[Route("/forget", _forget), *list_routes()],
    middleware=list_middleware(),
    lifespan=lifespan,
)
