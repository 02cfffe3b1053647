from __future__ import annotations

import gzip
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from graphviz_dash.app.hosting import server
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.run import Experiment
from graphviz_dash.ui.state import store
from graphviz_dash.ui.state.results import get_traced_steps
from graphviz_dash.ui.state.store import STORE
from tests.builders import make_experiment, make_run, replay_trace
from tests.ingest.test_load import replace_trace
from tests.ui.views.apptests import markup, rerun, shown


def told(page: AppTest) -> list[str]:
    return [toast.value for toast in page.toast]


@pytest.mark.parametrize("name", ["compare", "overview"])
def test_a_run_that_arrives_is_compared_and_reported(roots: Path, name: str) -> None:
    make_run(roots / "toy", "eager", wall_ns=400_000)
    page = shown(name, experiment="toy")
    assert "4.00x" not in markup(page)
    assert told(page) == []
    make_run(roots / "toy", "graph", wall_ns=100_000)
    page = rerun(page)
    assert "4.00x" in markup(page)
    assert told(page) == ["toy changed on disk; showing the current version."]
    assert told(rerun(page)) == []


def test_a_folder_that_is_replaced_shows_its_new_figures(roots: Path) -> None:
    make_run(roots / "toy", "eager", wall_ns=400_000)
    make_run(roots / "toy", "graph", wall_ns=100_000)
    page = shown("compare", experiment="toy")
    shutil.rmtree(roots / "toy")
    make_run(roots / "toy", "eager", wall_ns=400_000)
    make_run(roots / "toy", "graph", wall_ns=200_000)
    page = rerun(page)
    assert "2.00x" in markup(page)
    assert len(told(page)) == 1
    # And to who comes later, whom nothing has to be told.
    later = shown("compare", experiment="toy")
    assert "2.00x" in markup(later)
    assert told(later) == []


def test_a_trace_that_grows_is_read_again(roots: Path) -> None:
    path = make_experiment(roots / "toy", traced=3)
    page = shown("timeline", experiment="toy")
    trace = replay_trace(steps=5).text().encode()
    replace_trace(path / "graph", gzip.compress(trace))
    page = rerun(page)
    assert len(told(page)) == 1
    (key,) = [key for key in STORE._paths if STORE._paths[key] == path.resolve()]
    assert len(get_traced_steps(key, "graph")) == 5


def test_experiments_that_come_and_go_are_told_on_the_overview(roots: Path) -> None:
    make_experiment(roots / "toy")
    page = shown("overview")
    for name in ("a", "b", "c", "d"):
        make_experiment(roots / f"late-{name}")
    page = rerun(page)
    (arrival,) = told(page)
    assert arrival.replace("\\", "") == "late-a, late-b, late-c and 1 more added."
    shutil.rmtree(roots / "toy")
    assert told(rerun(page)) == ["toy deleted."]


def test_a_change_during_rendering_is_shown(roots: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(roots / "toy", "eager", wall_ns=400_000)
    load = store.load_experiment

    def change_and_load(path: Path, *, traces: bool) -> Experiment:
        if traces:
            monkeypatch.setattr(store, "load_experiment", load)
            make_run(roots / "toy", "graph", wall_ns=100_000)
            STORE.register(path)
        return load(path, traces=traces)

    monkeypatch.setattr(store, "load_experiment", change_and_load)
    page = rerun(AppTest.from_file(str(server.PAGES), default_timeout=60))
    assert not page.exception
    assert "4.00x" in markup(page)


def test_damaged_tables_in_the_cache_are_told_once(
    roots: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHVIZ_DASH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("graphviz_dash.ingest.cache.MIN_CACHED_EVENTS", 0)
    # Traces below the folder of temporary files are not kept, and tests are there.
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "elsewhere"))
    path = make_experiment(roots / "toy")
    load_experiment(path)
    tables = sorted((tmp_path / "cache").glob("*/gpu.parquet"))
    assert tables
    for table in tables:
        os.truncate(table, table.stat().st_size // 2)
    page = shown("compare", experiment="toy")
    (said,) = told(page)
    assert "graph/traces/replay.json.gz" in said.replace("\\", "")
    assert said.endswith("had a damaged cache and was read again from the trace.")
    assert told(rerun(page)) == []
