"""Every page on experiments of known truth, and on what can be wrong with them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from html import escape
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from graphviz_dash.analysis.compare import compare
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.run import ExecutionMode, Failure, Pass
from graphviz_dash.ui import catalogue
from graphviz_dash.ui.store import STORE
from tests.builders import Work, make_experiment, make_run

SCRIPT = Path(catalogue.__file__).parent / "script.py"
PAGES = ("overview", "compare", "graph", "timeline", "export")
HOSTILE = "void <img src=x onerror=alert(1)>**bold**\x1b[31m(float*)"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder that the dashboard looks in."""
    monkeypatch.setattr("sys.argv", ["app.py"])
    monkeypatch.setenv(catalogue.PATHS_VARIABLE, os.pathsep.join([str(tmp_path)]))
    catalogue.roots.cache_clear()
    yield tmp_path
    catalogue.roots.cache_clear()


def show(page: str, **query: str) -> AppTest:
    """The page after one run, without an exception."""
    app = AppTest.from_file(str(SCRIPT), default_timeout=60)
    app.run()
    for name, value in query.items():
        app.query_params[name] = value
    if page != "overview":
        # AppTest knows pages that are functions by their hash only: ask the navigation for it.
        app._page_hash = _hash_of(page)
    app.run()
    assert not app.exception, [error.value for error in app.exception]
    return app


def _hash_of(page: str) -> str:
    from streamlit.util import calc_hash

    return calc_hash(page)


def body(app: AppTest) -> str:
    return "\n".join(element.proto.body for element in app.get("html"))


@pytest.mark.parametrize("page", PAGES)
def test_pages_show_an_experiment(folder: Path, page: str) -> None:
    make_experiment(folder / "toy")
    app = show(page, experiment="toy")
    if page != "overview":
        assert app.selectbox[0].value == "toy"


def test_compare_shows_what_analysis_says(folder: Path) -> None:
    make_experiment(folder / "toy")
    result = compare(load_experiment(folder / "toy"))
    page = body(show("compare", experiment="toy"))
    assert result["graph"]["speedup"].text in page
    assert result["graph"]["break_even"].text in page
    for run in result.runs:
        for figure in run.figures:
            if figure.value is not None:
                assert figure.text in page, figure.metric.id


def test_the_overview_shows_each_experiment_with_its_outcome(folder: Path) -> None:
    make_experiment(folder / "one")
    make_experiment(folder / "deeper" / "two")
    page = body(show("overview"))
    assert "one" in page
    assert "deeper/two" in page
    assert compare(load_experiment(folder / "one"))["graph"]["speedup"].text in page


@pytest.mark.parametrize("page", PAGES)
def test_nothing_there_says_where_and_what_to_do(folder: Path, page: str) -> None:
    shown = body(show(page))
    assert "No experiments yet" in shown
    assert str(folder) in shown
    assert "graphviz-dash collect" in shown


@pytest.mark.parametrize("page", PAGES)
def test_a_failed_capture_is_shown_with_its_cause(folder: Path, page: str) -> None:
    failure = Failure(Pass.CLEAN, "AcceleratorError", "not <b>permitted</b>", "mine.py:7", "tb")
    make_run(folder / "bad", ExecutionMode.EAGER)
    make_run(folder / "bad", ExecutionMode.GRAPH, failure=failure)
    shown = body(show(page, experiment="bad"))
    if page in ("overview", "compare", "graph"):
        assert "mine.py:7" in shown
        assert "not &lt;b&gt;permitted&lt;/b&gt;" in shown
        assert "<b>permitted" not in shown


@pytest.mark.parametrize("page", PAGES)
def test_hostile_names_are_text(folder: Path, page: str) -> None:
    work = (Work(HOSTILE, 2_000, "aten::<script>", "a.py:1", module="<i>Net"),)
    make_experiment(folder / "<b>x", work=work)
    app = show(page, experiment="<b>x", node="0")
    shown = body(app)
    assert "<img" not in shown
    assert "<script" not in shown
    assert "<b>x" not in shown
    assert "\x1b" not in shown
    if page == "graph":
        assert "&lt;img" in shown


def test_a_damaged_experiment_does_not_hide_the_others(folder: Path) -> None:
    make_experiment(folder / "good")
    make_experiment(folder / "damaged")
    (folder / "damaged" / "graph" / "clean.json").write_bytes(b"{}")
    shown = body(show("overview"))
    assert "damaged cannot be read" in shown
    assert "clean.json" in shown
    assert compare(load_experiment(folder / "good"))["graph"]["speedup"].text in shown
    alone = body(show("compare", experiment="damaged"))
    assert "This experiment cannot be read" in alone


def test_a_node_in_the_address_has_its_card(folder: Path) -> None:
    make_experiment(folder / "toy")
    shown = body(show("graph", experiment="toy", node="2"))
    assert "node 2" in shown
    run = next(r for r in load_experiment(folder / "toy").runs if r.graphs)
    assert escape(run.graphs[0].nodes[2].label) in shown


@pytest.mark.parametrize("node", ["-1", "999", "x", "1e3", "9" * 40])
def test_a_node_that_does_not_exist_is_no_node(folder: Path, node: str) -> None:
    make_experiment(folder / "toy")
    assert "No node chosen" in body(show("graph", experiment="toy", node=node))


def test_an_experiment_that_does_not_exist_is_the_first(folder: Path) -> None:
    make_experiment(folder / "toy")
    app = show("compare", experiment="../../etc")
    assert app.selectbox[0].value == "toy"


def test_keys_are_stable_and_tell_no_path(folder: Path) -> None:
    make_experiment(folder / "toy")
    entry = catalogue.catalogue().entries["toy"]
    assert STORE.register(entry.path) == entry.key
    assert "toy" not in entry.key
