from __future__ import annotations

import gzip
import re
from html import escape, unescape
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.prediction.predict import Prediction
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.narrative.answer import build_answer
from graphviz_dash.narrative.prediction import (
    format_predicted_times,
    format_prediction_verdict,
    format_short_verdict,
)
from graphviz_dash.server_settings import STARTED_IN_VARIABLE
from graphviz_dash.units import format_ratio
from tests.builders import STEP, Work, make_experiment, make_run, replay_trace
from tests.ingest.test_load import replace_trace
from tests.ranks import make_ranks
from tests.samples import SAMPLES, compared_sample
from tests.ui.views.apptests import (
    FAILURE,
    HARM,
    NAVIGATION,
    PAGES,
    LookIn,
    assert_answers,
    markup,
    page_links,
    shown,
)


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    make_experiment(folder / "toy")
    return folder


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, where a trace ends too early."""
    folder = tmp_path_factory.mktemp("cut")
    text = replay_trace(steps=3).text().encode()
    replace_trace(make_experiment(folder / "toy") / "graph", gzip.compress(text)[:-200])
    return folder


@pytest.fixture(scope="module")
def sync(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An experiment whose graph could not be captured."""
    folder = tmp_path_factory.mktemp("failed") / "sync"
    make_run(folder, "eager")
    make_run(folder, "graph", failure=FAILURE)
    return folder


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An experiment of a failure alone."""
    folder = tmp_path_factory.mktemp("lost") / "lost"
    make_run(folder, "graph", failure=FAILURE)
    return folder


@pytest.fixture(scope="module")
def harmful(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An experiment all of whose names would do harm if they were more than text."""
    name = HARM.replace("/", "")
    work = [
        Work(HARM, 5_000 + index, HARM, f"{name}:{index}", module=name, sequence=index)
        for index in range(6)
    ]
    folder = tmp_path_factory.mktemp("harm") / "![a](http:x.example) <b>bold<b> :material_home:"
    for mode in ("eager", "graph", "callables"):
        label = f"{mode} ![a](http:x.example) <b>"
        make_run(folder, mode, name=label, work=work, workload=HARM, gpu=HARM)
    return folder


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An experiment of one eager run."""
    folder = tmp_path_factory.mktemp("alone") / "alone"
    make_run(folder, "eager", work=STEP)
    return folder


@pytest.mark.parametrize("name", PAGES)
def test_every_page_tells_of_a_trace_that_is_cut(
    look_in: LookIn, toy: Path, cut: Path, name: str
) -> None:
    look_in(toy)
    assert "is incomplete" not in markup(shown(name))
    look_in(cut)
    told = markup(shown(name))
    assert "A trace of graph is incomplete" in told
    assert "The trace is truncated: gzip data ends unexpectedly" in told


@pytest.mark.parametrize("name", PAGES)
def test_an_empty_folder_says_what_to_do(roots: Path, name: str) -> None:
    told = markup(shown(name))
    assert "No experiments yet" in told
    assert str(roots) in told
    assert "graphviz-dash collect" in told


@pytest.mark.parametrize("name", PAGES[1:])
def test_an_address_of_an_experiment_that_is_not_there_says_so(
    look_in: LookIn, toy: Path, name: str
) -> None:
    look_in(toy)
    told = markup(shown(name, experiment="<gone>"))
    assert "Experiment not found" in told
    assert "&lt;gone&gt;" in told


def test_export_offers_the_trace_and_the_tables(
    look_in: LookIn, toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_in(toy)
    monkeypatch.setenv(STARTED_IN_VARIABLE, str(toy.parent))
    page = shown("export", experiment="toy")
    buttons = [button.label for button in page.get("download_button")]
    assert buttons == [
        "HTML report",
        "CSV",
        "Parquet",
        "Nodes (CSV)",
        "Nodes (Parquet)",
        "Graphviz DOT",
    ]
    # The folder is named as from where the server was started.
    folder = f"{toy.name}/toy"
    for command in (f"export perfetto {folder} ", f"export nodes {folder}/graph "):
        assert f"graphviz-dash {command}" in markup(page)
    monkeypatch.setenv(STARTED_IN_VARIABLE, "/")
    assert f" {toy.as_posix()[1:]}/toy " in markup(shown("export"))


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.usefixtures("open_folds")
def test_a_failure_is_shown_with_its_cause(look_in: LookIn, sync: Path, name: str) -> None:
    look_in(sync.parent)
    page = shown(name) if name == "overview" else shown(name, experiment="sync")
    told = markup(page)
    if name in ("overview", "compare"):
        assert "<b>graph failed</b> in its clean pass at <code>model.py:15</code>" in told
        assert "RuntimeError: operation not permitted when stream is capturing" in told
        # Nothing was measured of the graph: what is told of it is called predicted.
        assert "predicted" in told
    if name == "compare":
        assert page.code[0].value == FAILURE.traceback
        assert_answers(page, build_answer(compare_runs(load_experiment(sync))))
    if name == "graph":
        assert "No captured graph in this experiment" in told
        assert "graph failed in its clean pass at model.py:15: RuntimeError" in told
    if name == "export":
        assert "No captured graph in this experiment" in told


@pytest.mark.parametrize("name", PAGES)
def test_an_experiment_of_failures_alone_is_no_crash(
    look_in: LookIn, lost: Path, name: str
) -> None:
    look_in(lost.parent)
    told = markup(shown(name) if name == "overview" else shown(name, experiment="lost"))
    expected = {
        "overview": "graph failed",
        "compare": "No kernels to show",
        "graphs": "No recorded program in this experiment",
        "graph": "No captured graph",
        "timeline": "No trace in this experiment",
        "memory": "No memory pass in this experiment",
        "ranks": "No ranks in this experiment",
        "doctor": "The bundle has no doctor report",
        "export": "No trace in this experiment",
    }
    assert expected[name] in told


@pytest.mark.parametrize("name", PAGES)
def test_names_are_shown_as_text_and_nothing_else(
    look_in: LookIn, harmful: Path, name: str
) -> None:
    look_in(harmful.parent)
    parameters = {} if name == "overview" else {"experiment": harmful.name}
    page = shown(name, **parameters, **({"node": "2"} if name == "graph" else {}))
    told = markup(page)
    for forbidden in ("<img", "<b>bold", "\x1b"):
        assert forbidden not in told
    if name == "graph":
        assert "&lt;img src=" in told
        assert "\\x1b[31m" in told
    # Labels and headings are Markdown: an image in one would be fetched from another host.
    labels = [option.content for group in page.button_group for option in group.proto.options]
    labels += [piece.value for piece in page.markdown] + [piece.value for piece in page.header]
    labels += [piece.label for piece in page.expander]
    labels += [button.label for button in page.get("download_button")]
    for label in labels:
        assert "![" not in label.replace("\\!\\[", "")
        assert ":material/home:" not in label


def test_every_page_takes_ranks(roots: Path) -> None:
    for mode in ("eager", "graph"):
        make_ranks(roots / "tp", mode)
    assert "graph-rank1 is faster than eager-rank1" in markup(shown("overview"))
    for name in ("compare", "graph", "timeline", "memory", "export"):
        shown(name, experiment="tp")


def test_every_page_opens_on_every_kind_of_node(all_nodes: CapturedGraph) -> None:
    for name in PAGES:
        page = shown(name, experiment="all-nodes")
        assert [warning.value for warning in page.warning] == []


@pytest.mark.parametrize("name", ["overview", "compare", "doctor"])
def test_an_eager_run_alone_shows_what_a_graph_would_gain(
    look_in: LookIn, alone: Path, name: str
) -> None:
    look_in(alone.parent)
    outlook = compare_runs(load_experiment(alone))["eager"].graph_prediction
    assert isinstance(outlook, Prediction)
    told = markup(shown(name, experiment="alone"))
    if name == "overview":
        assert f">{format_ratio(outlook.speedup.value)}</span>" in told
        assert escape(format_predicted_times(outlook)) in told
    else:
        assert escape(
            (format_short_verdict if name == "compare" else format_prediction_verdict)(outlook),
            quote=False,
        ) in unescape(told).replace("</a>", "").replace('<a href="#predicted">', "")
        assert "Capture blockers" in told
        assert "GPU idle" in told or name == "doctor"


def test_the_gain_of_a_wrong_result_is_struck_out_on_every_page(
    look_in: LookIn,
) -> None:
    look_in(SAMPLES / "moved-inputs")
    compared = markup(shown("compare"))
    assert re.search('value doubted">[^<]*x<', compared)
    for name in ("graph", "timeline", "memory", "export"):
        assert "compute a different result than the step" in markup(shown(name)), name
    # Nor is it sorted among speedups.
    assert compared_sample("moved-inputs").gain is None


def test_pages_without_anything_to_show_are_dimmed_with_the_reason(
    look_in: LookIn, alone: Path
) -> None:
    look_in(alone.parent)
    page = shown("compare", experiment="alone")
    helps = {link.label: link.reason for link in page_links(page)[:NAVIGATION]}
    assert helps["Graph"] == "No run here holds a captured graph"
    assert helps["Ranks"] == "Each run here has only one process"
    assert not helps["Timeline"]
    assert not helps["Doctor"]
    (bar,) = [piece.value for piece in page.get("html") if str(piece.value).startswith("<nav")]
    assert bar.count('class="to-page dim"') == sum(map(bool, helps.values()))
    on_launch = page_links(shown("launch", experiment="alone"))
    assert {link.label: link.reason for link in on_launch[:NAVIGATION]} == helps


def test_no_page_repeats_what_another_or_a_fold_says(look_in: LookIn) -> None:
    look_in(SAMPLES)
    timeline = shown("timeline", experiment="compile-fixes")
    assert not timeline.get("plotly_chart")
    assert "compile" in {link.page for link in page_links(timeline)[NAVIGATION:]}
    export = markup(shown("export", experiment="mlp-train"))
    _, folded = export.split("<summary>In a terminal</summary>")
    assert folded.count("graphviz-dash export") == export.count("graphviz-dash export") == 5


def test_graphs_are_the_first_tab_of_a_program_with_many(look_in: LookIn) -> None:
    look_in(SAMPLES)
    for page in ("graphs", "graph"):
        program = shown(page, experiment="recorded-server")
        [tabs] = [str(one.value) for one in program.get("html") if 'class="tabs"' in str(one.value)]
        assert re.findall(r"<span>(.*?)</span>", tabs) == ["All graphs", "One graph"]
        bar = {link.label: link.page for link in page_links(program)[:NAVIGATION]}
        assert bar["Graph"] == "graphs"
    one = shown("graph", experiment="fork-join")
    assert not any('class="tabs"' in str(piece.value) for piece in one.get("html"))
    assert {link.label: link.page for link in page_links(one)[:NAVIGATION]}["Graph"] == "graph"


def test_the_tab_and_the_hidden_title_name_experiment_and_page(look_in: LookIn, toy: Path) -> None:
    look_in(toy)
    page = shown("timeline", experiment="toy")
    assert 'class="unseen">Timeline of toy<' in "".join(
        str(each.value) for each in page.get("html")
    )
    page.query_params.update({"experiment": "toy"})

    def title() -> None:
        import streamlit as st

        from graphviz_dash.ui.page.frame import build_tab_title

        st.text(build_tab_title("timeline"))
        st.text(build_tab_title("overview"))

    titled = AppTest.from_function(title)
    titled.query_params["experiment"] = "toy"
    assert [said.value for said in titled.run().text] == [
        "toy · Timeline · graphviz-dash",
        "Overview · graphviz-dash",
    ]


def test_folders_are_named_from_where_the_command_was_given(
    roots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(roots / "toy", "eager")
    monkeypatch.setenv(STARTED_IN_VARIABLE, str(roots.parent))
    assert f"1 found in {roots.name}<" in markup(shown("overview"))
