"""Every page by itself: what it says of experiments of known truth, of failed and missing ones, and
of names that would do harm if they were more than text."""

from __future__ import annotations

import gzip
import re
import shutil
import sys
from collections.abc import Iterator
from html import escape, unescape
from math import isnan
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from graphviz_dash.analysis.comparison.compare import compare
from graphviz_dash.analysis.comparison.compile_parts import CompileParts
from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.analysis.prediction.predict import Prediction
from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.importers.bundles import import_files
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.run import ExecutionMode, Failure, Pass
from graphviz_dash.narrative.answer import Piece, answer, run_answer
from graphviz_dash.narrative.parallel import plan_sentences
from graphviz_dash.narrative.prediction import predicted_times, prediction_verdict, scored_text
from graphviz_dash.ui.hosting import server
from graphviz_dash.ui.state import catalogue
from graphviz_dash.ui.state.results import comparison
from graphviz_dash.ui.state.store import STORE
from graphviz_dash.units import format_ratio
from tests.analysis.memory_passes import EAGER, GRAPHED
from tests.analysis.parallel.training import chain_plan, write_parallel_experiment
from tests.builders import STEP, Work, make_experiment, make_run, replay_trace
from tests.ingest.test_load import replace_trace
from tests.ranks import make_ranks

PAGES = (
    *("overview", "compare", "graphs", "graph", "timeline", "memory", "ranks", "doctor"),
    "export",
)
HARM = '<img src="x" onerror="alert(1)"> ![a](http:x.example) \x1b[31m **bold** :material/home:'
FAILURE = Failure(
    Pass.CLEAN,
    "RuntimeError",
    "operation not permitted when stream is capturing\nmore",
    "model.py:15",
    "Traceback (most recent call last):\n  model.py:15\nRuntimeError: no",
)


@pytest.fixture(autouse=True)
def roots(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The folder that the pages look in."""
    monkeypatch.setattr(sys, "argv", ["app.py", str(tmp_path)])
    catalogue.roots.cache_clear()
    yield tmp_path
    catalogue.roots.cache_clear()


def _show(name: str) -> None:
    """One page with its bar, as script.py shows it."""
    import streamlit as st

    from graphviz_dash.ui.page import url_state
    from graphviz_dash.ui.page.frame import top_bar
    from graphviz_dash.ui.page.navigation import pages
    from graphviz_dash.ui.views import (
        compare,
        doctor,
        export,
        graph,
        graphs,
        launch,
        memory,
        overview,
        ranks,
        timeline,
    )

    st.navigation(pages(), position="hidden")
    top_bar(name)
    views = {
        "overview": overview,
        "compare": compare,
        "graph": graph,
        "graphs": graphs,
        "timeline": timeline,
        "memory": memory,
        "ranks": ranks,
        "launch": launch,
        "doctor": doctor,
        "export": export,
    }
    try:
        views[name].render()
    finally:
        url_state.remember(name)


def shown(name: str, **parameters: Any) -> AppTest:
    """The page ``name`` at an address with these parameters, without an exception on it."""
    page = AppTest.from_function(_show, kwargs={"name": name}, default_timeout=60)
    page.query_params.update(parameters)
    return rerun(page)


def rerun(changed: Any) -> AppTest:
    """The page after its script ran again; ``changed`` is the page, or a widget set anew."""
    page: AppTest = changed.run()
    assert [error.value for error in page.exception] == []
    return page


def markup(page: AppTest) -> str:
    """All HTML of the page's own, the style sheets left out."""
    pieces = [str(piece.value) for piece in page.get("html")]
    return "\n".join(
        piece for piece in pieces if "<style" not in piece and 'class="brand"' not in piece
    )


def links(page: AppTest) -> dict[str, str]:
    """Query strings of the bar's links, by label."""
    return {link.value: link.proto.query_string for link in page.get("page_link")[:5]}


def chosen(page: AppTest, key: str) -> Any:
    return next(group for group in page.button_group if group.key == f"choice-{key}")


def test_the_script_opens_at_the_overview(roots: Path) -> None:
    make_experiment(roots / "toy")
    page = rerun(AppTest.from_file(str(server.PAGES), default_timeout=60))
    assert "1 found in" in markup(page)
    assert "toy" in markup(page)


def test_the_overview_tells_how_much_faster_and_why(roots: Path) -> None:
    path = make_experiment(roots / "toy", work=STEP)
    result = compare(load_experiment(path))
    best = result.best
    assert best is not None
    told = markup(shown("overview"))
    assert f">{best['speedup'].text}</span>" in told
    assert "faster: graph against eager" in told
    assert "400 µs → 100 µs per step" in told
    assert f"<b>{len(STEP)} → 1</b>" in told
    assert "<b>350 µs → 8.00 µs</b>" in told
    assert f"<b>{best['break_even'].text} replays</b>" in told
    assert 'aria-label="eager: 400 µs per step, GPU busy' in told


def test_a_slower_run_and_one_without_a_significant_difference_are_called_so(roots: Path) -> None:
    for name, wall in (("slower", 500_000), ("same", 400_000)):
        make_run(roots / name, "eager", wall_ns=400_000)
        make_run(roots / name, "graph", wall_ns=wall)
    told = markup(shown("overview"))
    assert ">1.25x</span><span" in told
    assert "slower: graph against eager" in told
    assert "no significant difference: graph and eager" in told


def test_an_unreadable_experiment_leaves_the_others(roots: Path) -> None:
    make_experiment(roots / "good")
    broken = make_experiment(roots / "broken") / "graph" / "clean.json"
    broken.write_bytes(broken.read_bytes()[:-20])
    told = markup(shown("overview"))
    assert "broken cannot be read" in told
    assert "faster: graph against eager" in told


@pytest.mark.parametrize("name", PAGES)
def test_every_page_tells_of_a_trace_that_is_cut(roots: Path, name: str) -> None:
    whole = make_experiment(roots / "toy")
    assert "is not whole" not in markup(shown(name))
    text = replay_trace(steps=3).text().encode()
    replace_trace(whole / "graph", gzip.compress(text)[:-200])
    told = markup(shown(name))
    assert "A trace of graph is not whole" in told
    assert "The trace is cut off: gzip data that end too early" in told


@pytest.mark.parametrize("name", PAGES)
def test_an_empty_folder_says_what_to_do(roots: Path, name: str) -> None:
    told = markup(shown(name))
    assert "No experiments yet" in told
    assert str(roots) in told
    assert "graphviz-dash collect" in told


@pytest.mark.parametrize("name", PAGES[1:])
def test_an_address_of_an_experiment_that_is_not_there_says_so(roots: Path, name: str) -> None:
    make_experiment(roots / "toy")
    told = markup(shown(name, experiment="<gone>"))
    assert "This experiment is not here" in told
    assert "&lt;gone&gt;" in told


def _answers(page: AppTest, answer: tuple[Piece, ...]) -> None:
    """The page says the answer first, and every figure of it leads to its evidence, which is on the
    page."""
    told = markup(page)
    assert answer
    anchors = {heading.proto.anchor for heading in page.header}
    anchors |= set(re.findall(r' id="([^"]+)"', told))
    for piece in answer:
        wanted = escape(piece.text)
        assert (f">{wanted}</a>" if piece.evidence else wanted) in told
        assert piece.evidence or not re.search(r"\d", piece.text)
    led = re.findall(r'href="#([^"]+)"', told)
    assert len(led) == sum(piece.evidence is not None for piece in answer)
    assert set(led) <= anchors


def test_compare_shows_the_figures_of_the_comparison(roots: Path) -> None:
    path = make_experiment(roots / "toy", ("eager", "graph", "compile"))
    result = compare(load_experiment(path))
    page = shown("compare", experiment="toy")
    told = markup(page)
    for run in result.runs:
        for figure in run.figures:
            if figure.value is not None:
                assert f">{figure.text}</span>" in told, (run.name, figure.metric.id)
    assert len(page.get("plotly_chart")) == 4
    assert page.query_params["experiment"] == "toy"


def test_compare_shows_the_prediction_beside_the_measurement(roots: Path) -> None:
    path = make_experiment(roots / "toy")
    run = compare(load_experiment(path))["graph"]
    assert run.prediction is not None
    page = shown("compare", experiment="toy")
    assert scored_text(run.prediction, run["step_time"].value) in markup(page)


def test_compare_holds_the_run_of_the_address_against_the_baseline(roots: Path) -> None:
    path = make_experiment(roots / "toy", ("eager", "graph", "compile"))
    result = compare(load_experiment(path))
    page = shown("compare", experiment="toy", run="compile")
    _answers(page, run_answer(result["compile"]))
    rerun(chosen(page, "run").set_value("graph"))
    _answers(page, run_answer(result["graph"]))
    assert "run" not in page.query_params  # the fastest is what an address without it means
    rerun(chosen(page, "run").set_value("compile"))
    assert page.query_params["run"] == "compile"


def test_compare_divides_a_compiled_run_by_cause(roots: Path) -> None:
    path = make_experiment(roots / "toy", ("eager", "compile-default", "compile"))
    parts = compare(load_experiment(path))["compile"].compile_parts
    assert isinstance(parts, CompileParts)
    page = shown("compare", experiment="toy", run="compile")
    table = next(one.value for one in page.dataframe if "Saved by" in one.value.columns)
    assert table["Saved by"].tolist() == ["compiling (compile-default)", "graphs on top"]
    for row, part in enumerate((parts.compiling, parts.graphs)):
        assert table["Difference, µs"][row] == -part.total / 1e3
        for cause, saved in part.items():
            column = f"{cause.value.capitalize()}, µs"
            assert not saved or table[column][row] == -saved / 1e3


def _kernels(page: AppTest) -> Any:
    """The table of kernels, among the tables of the page."""
    return next(one.value for one in page.dataframe if "Kernel" in one.value.columns)


def test_the_kernels_are_searched_by_name_and_category(roots: Path) -> None:
    make_experiment(roots / "toy")
    page = shown("compare", experiment="toy")
    table = _kernels(page)
    assert list(table.columns)[:7] == [
        "Kernel",
        "Category",
        "eager, count",
        "eager, µs",
        "graph, count",
        "graph, µs",
        "Change, µs",
    ]
    adam = table[table["Full name"].str.contains("multi_tensor")].iloc[0]
    assert (adam["eager, µs"], adam["graph, µs"], adam["Change, µs"]) == (3.0, 3.0, 0.0)
    field = page.text_input(key="choice-kernel")
    rerun(field.set_value("Cutlass"))
    assert _kernels(page)["Category"].tolist() == ["gemm"]
    assert page.query_params["kernel"] == "Cutlass"
    again = shown("compare", experiment="toy", kernel="reduction")
    assert _kernels(again)["Category"].tolist() == ["reduction"]


def test_a_run_on_several_streams_is_one_more_mode(roots: Path) -> None:
    plan = chain_plan(4)
    write_parallel_experiment(roots / "training", plan)
    page = shown("compare", experiment="training", run="parallel")
    assert plan_sentences("parallel", plan)[0] in unescape(markup(page))
    tried = next(one.value for one in page.dataframe if "Edges between them" in one.value.columns)
    assert tried["Streams"].tolist() == ["1", "2", "4, chosen"]
    graph = unescape(markup(shown("graph", experiment="training", run="graph", node="9")))
    # The operators that the run observed tell what the plain graph needs.
    assert "writes over what it wrote: float32 [16]" in graph


def test_the_graph_says_what_several_streams_would_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["app.py", "sample_traces"])
    catalogue.roots.cache_clear()
    page = shown("graph", experiment="transformer-train", node="300")
    said = unescape(markup(page))
    assert "Captured on 3 streams, with only the dependencies that it needs" in said
    assert "both can reach" in said


def test_the_card_of_the_addressed_node_tells_all(roots: Path) -> None:
    make_experiment(roots / "toy")
    page = shown("graph", experiment="toy", node="1")
    told = markup(page)
    for text in (
        "node 1 · Kernel · gemm",
        "cutlass::gemm_kernel&lt;float, 64&gt;",
        "aten::addmm",
        "Mlp.0",
        "model.py:11",
        "8 x 2 x 1",
        "7.70 µs",
        "confidence 100%",
    ):
        assert text in told, text
    assert f"{len(STEP)} nodes, {len(STEP) - 1} edges" in told
    assert f"{3 * len(STEP)} of {3 * len(STEP)} GPU rows" in told


def test_without_a_node_the_longest_are_offered(roots: Path) -> None:
    make_experiment(roots / "toy")
    page = shown("graph", experiment="toy", node="99")
    assert "node" not in page.query_params
    assert "Longest nodes" in markup(page)
    times = page.dataframe[0].value["µs"].tolist()
    assert times[0] == max(work.duration for work in STEP) / 1e3
    assert times == sorted(times, reverse=True)


def test_nodes_are_searched_by_operator_module_and_source(roots: Path) -> None:
    make_experiment(roots / "toy")
    page = shown("graph", experiment="toy", search="mlp.2")
    found = page.dataframe[-1].value
    wanted = [index for index, work in enumerate(STEP) if work.module == "Mlp.2"]
    assert found["Node"].tolist() == wanted
    rerun(page.text_input(key="choice-search").set_value("train.py:22"))
    assert page.dataframe[-1].value["Node"].tolist() == [9]


def test_another_run_forgets_the_graph_and_node_of_the_one_before(roots: Path) -> None:
    make_experiment(roots / "toy", ("eager", "graph", "callables"))
    page = shown("graph", experiment="toy", node="3", colour="time")
    rerun(chosen(page, "run").set_value("callables"))
    assert page.query_params == {"experiment": "toy", "run": "callables", "colour": "time"}
    rerun(page.selectbox(key="choice-colour").set_value("category"))
    assert page.query_params == {"experiment": "toy", "run": "callables"}


def test_another_experiment_forgets_what_belonged_to_the_one_before(roots: Path) -> None:
    make_experiment(roots / "one")
    make_experiment(roots / "two")
    page = shown("graph", experiment="one", node="3", colour="kind")
    rerun(page.selectbox(key="choice-experiment").set_value("two"))
    assert page.query_params == {"experiment": "two", "colour": "kind"}


def test_links_lead_back_to_what_was_seen_of_the_same_experiment(roots: Path) -> None:
    make_experiment(roots / "one")
    make_experiment(roots / "two")
    page = shown("graph", experiment="one", node="3")
    assert links(page)["Timeline"] == "experiment=one&select=graph%2Fgraph-0%233"
    assert links(page)["Overview"] == ""
    rerun(page)
    assert links(page)["Graph"] == "experiment=one&node=3"
    rerun(page.selectbox(key="choice-experiment").set_value("two"))
    assert links(page)["Compare"] == "experiment=two"


def test_the_timeline_shows_the_baseline_and_the_fastest_run_first(roots: Path) -> None:
    make_experiment(roots / "toy", ("eager", "graph", "partial"))
    page = shown("timeline", experiment="toy")
    assert chosen(page, "runs").value == ["eager", "graph"]
    rerun(chosen(page, "runs").set_value(["partial", "graph"]))
    assert page.query_params["runs"] == ["graph", "partial"] or page.query_params["runs"] == [
        "partial",
        "graph",
    ]
    rerun(page.selectbox(key="choice-step").set_value("1"))
    assert page.query_params["step"] == "1"
    assert "Times here are from the traced pass" in markup(page)


def test_of_traces_alone_the_timeline_shows_those_that_mark_steps(
    roots: Path, tmp_path: Path
) -> None:
    samples = Path("sample_traces/fork-join")
    for name, trace in (
        ("eager", "eager/traces/replay.json.gz"),
        ("graph-captured", "graph/traces/capture.json.gz"),
        ("graph-replayed", "graph/traces/replay.json.gz"),
    ):
        file = tmp_path / name / "one.json.gz"
        file.parent.mkdir()
        shutil.copy(samples / trace, file)
        mode = ExecutionMode.EAGER if name == "eager" else ExecutionMode.RECORDED
        import_files([file], roots / "foreign", mode=mode, prefix=f"{name}-")
    page = shown("timeline", experiment="foreign")
    assert chosen(page, "runs").value == ["eager-one", "graph-replayed-one"]
    told = markup(shown("compare", experiment="foreign"))
    assert "Not available: no run has clean timings. Under the profiler a step takes" in told
    assert "Its runs were imported" in markup(shown("doctor", experiment="foreign"))


def test_a_selected_node_brings_its_run_and_a_link_to_the_graph(roots: Path) -> None:
    make_experiment(roots / "toy", ("eager", "graph", "partial"))
    page = shown("timeline", experiment="toy", select="partial/graph-0#4")
    assert chosen(page, "runs").value == ["eager", "graph", "partial"]
    link = page.get("page_link")[-1]
    assert link.value == "Show node 4 in the graph"
    assert link.proto.query_string == "experiment=toy&run=partial&graph=graph-0&node=4"


def test_export_offers_the_trace_and_the_tables(roots: Path) -> None:
    make_experiment(roots / "toy")
    page = shown("export", experiment="toy")
    buttons = [button.label for button in page.get("download_button")]
    assert buttons == [
        "HTML report",
        "CSV",
        "Parquet",
        "Nodes, CSV",
        "Nodes, Parquet",
        "Graphviz DOT",
    ]
    # Each word of a command keeps together, so that no line ends within "--graph".
    words = ["graphviz-dash", "export", "perfetto", "toy"]
    assert " ".join(f'<span class="word">{word}</span>' for word in words) in markup(page)


def test_memory_says_what_graphs_cost_and_which_graph_uses_what(roots: Path) -> None:
    make_experiment(roots / "toy", memory_pass={"eager": EAGER, "graph": GRAPHED})
    page = shown("memory", experiment="toy")
    told = markup(page)
    assert "against it graph +24.0 MiB (its activations +57.5%)" in told
    assert "Pool 0-1 reserves 70.0 MiB in 2 segments: 41.0 MiB of one graph, 10.0 MiB" in told
    assert "made ready: graphs captured" in told
    (table,) = page.dataframe
    assert list(table.value["Graph"]) == ["graph-0", "graph-1"]
    assert list(table.value["Shared, MiB"]) == [10.0, 10.0]
    assert "no graph was captured" in markup(shown("memory", experiment="toy", run="eager"))


def test_graphs_by_layer_are_set_against_what_is_published(roots: Path) -> None:
    modes = {"eager": EAGER, "partial": GRAPHED}
    make_experiment(roots / "toy", modes=list(modes), memory_pass=modes)
    page = shown("memory", experiment="toy")
    assert any("NeMo" in caption.value for caption in page.caption)
    eager = shown("memory", experiment="toy", run="eager")
    assert not any("NeMo" in caption.value for caption in eager.caption)


def test_memory_of_bundles_with_and_without_the_pass(roots: Path) -> None:
    make_experiment(roots / "old")
    told = markup(shown("memory", experiment="old"))
    assert "eager, graph: the bundle has no memory pass." in told
    assert "graphviz-dash collect --workload takes a memory pass" in told
    make_experiment(roots / "mixed", memory_pass={"graph": GRAPHED})
    told = markup(shown("memory", experiment="mixed"))
    assert "graph takes 624 MiB" in told
    assert "eager: the bundle has no memory pass" in told


@pytest.mark.parametrize("name", PAGES)
def test_what_failed_is_shown_with_its_cause(roots: Path, name: str) -> None:
    make_run(roots / "sync", "eager")
    make_run(roots / "sync", "graph", failure=FAILURE)
    page = shown(name) if name == "overview" else shown(name, experiment="sync")
    told = markup(page)
    if name in ("overview", "compare"):
        assert "<b>graph failed</b> in its clean pass at <code>model.py:15</code>" in told
        assert "RuntimeError: operation not permitted when stream is capturing" in told
        # Nothing was measured of the graph: what is told of it is called predicted.
        assert "predicted" in told
    if name == "compare":
        assert page.code[0].value == FAILURE.traceback
        _answers(page, answer(compare(load_experiment(roots / "sync"))))
    if name == "graph":
        assert "This experiment holds no captured graph" in told
        assert "graph failed in its clean pass at model.py:15: RuntimeError" in told
    if name == "export":
        assert "This experiment holds no captured graph" in told


@pytest.mark.parametrize("name", PAGES)
def test_an_experiment_of_failures_alone_is_no_crash(roots: Path, name: str) -> None:
    make_run(roots / "lost", "graph", failure=FAILURE)
    told = markup(shown(name) if name == "overview" else shown(name, experiment="lost"))
    expected = {
        "overview": "graph failed",
        "compare": "No kernels to show",
        "graphs": "This experiment holds no loop of a program",
        "graph": "holds no captured graph",
        "timeline": "This experiment holds no trace",
        "memory": "No run of this experiment has a memory pass",
        "ranks": "This experiment was collected by one process",
        "doctor": "The bundle holds no doctor&#x27;s report",
        "export": "This experiment holds no trace",
    }
    assert expected[name] in told


@pytest.mark.parametrize("name", PAGES)
def test_names_are_shown_as_text_and_nothing_else(roots: Path, name: str) -> None:
    harmful = HARM.replace("/", "")
    work = [
        Work(HARM, 5_000 + index, HARM, f"{harmful}:{index}", module=harmful, sequence=index)
        for index in range(6)
    ]
    folder = roots / "![a](http:x.example) <b>bold<b> :material_home:"
    for mode in ("eager", "graph", "callables"):
        label = f"{mode} ![a](http:x.example) <b>"
        make_run(folder, mode, name=label, work=work, workload=HARM, gpu=HARM)
    parameters = {} if name == "overview" else {"experiment": folder.name}
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
    labels += [link.value for link in page.get("page_link")]
    labels += [piece.label for piece in page.expander]
    labels += [button.label for button in page.get("download_button")]
    for label in labels:
        assert "![" not in label.replace("\\!\\[", "")
        assert ":material/home:" not in label


def test_figures_carry_names_as_text_too(roots: Path) -> None:
    folder = roots / "toy"
    make_run(folder, "eager")
    make_run(folder, "graph", name="<i>graph</i>")
    page = shown("compare", experiment="toy")
    for chart in page.get("plotly_chart"):
        assert "<i>" not in chart.proto.spec
        assert chart.proto.theme == ""


def test_ranks_say_who_comes_last_and_why(roots: Path) -> None:
    for mode in ("eager", "graph"):
        make_ranks(roots / "tp", mode)
    page = shown("ranks", experiment="tp")
    told = markup(page)
    # The graphed mode is what one looks for.
    assert chosen(page, "mode").value == "graph"
    assert "both ranks take 110 µs per step" in told
    assert "rank 1 comes last to 66.7% of the collectives and costs 8.00 µs per traced step" in told
    assert "its GPU work before them takes longer (+8.00 µs)" in told
    assert "most at number 3 of 3, by 5.00 µs" in told
    assert "graphs of all ranks agree" in told
    assert len(page.get("plotly_chart")) == 2
    table = page.dataframe[0].value
    assert list(table["Skew, µs"]) == [0.0, 3.0, 5.0]
    assert list(table["Node"]) == [1, 3, 5]
    assert list(table["Module"]) == [f"Net.layers.{place}" for place in range(3)]
    assert "eager: both ranks" in markup(shown("ranks", experiment="tp", mode="eager"))


def test_ranks_of_one_process_say_how_to_record_them(roots: Path) -> None:
    make_experiment(roots / "toy")
    assert "torchrun --nproc-per-node 2 -m collectors" in markup(shown("ranks", experiment="toy"))


def test_a_rank_without_the_others_says_so(roots: Path) -> None:
    make_ranks(roots / "tp", "graph", only=[1])
    told = markup(shown("ranks", experiment="tp"))
    assert "No skew: only one rank of several is here" in told
    assert "No run of rank 0 is here" in told


def test_every_page_takes_ranks(roots: Path) -> None:
    for mode in ("eager", "graph"):
        make_ranks(roots / "tp", mode)
    assert "faster: graph-rank1 against eager-rank1" in markup(shown("overview"))
    for name in ("compare", "graph", "timeline", "memory", "export"):
        shown(name, experiment="tp")


@pytest.fixture
def all_nodes(roots: Path) -> CapturedGraph:
    """The recorded experiment with every kind of node, and the body of its While."""
    source = Path(__file__).parents[3] / "sample_traces" / "all-nodes"
    shutil.copytree(source, roots / "all-nodes")
    graphs = read_bundle(source / "graph").graphs
    return next(graph for graph in graphs if [node.label for node in graph.nodes][:1] == ["relax"])


def test_a_node_inside_another_is_chosen_in_the_whole(all_nodes: CapturedGraph) -> None:
    page = shown("graph", experiment="all-nodes", graph=all_nodes.id, node="1")
    place = page.query_params["node"]
    assert page.query_params["graph"] == "graph-0"
    assert int(place[0] if isinstance(place, list) else place) > 1
    told = markup(page)
    assert f"node 1 of {all_nodes.id}" in told
    assert "the last turn of each replay" in told
    assert all_nodes.parent is not None
    assert f"node {all_nodes.parent[1]} of graph-0" in told
    label = all_nodes.nodes[1].label
    page = shown("graph", experiment="all-nodes", graph="graph-0", search=label)
    names = page.dataframe[-1].value["Node"].tolist()
    assert f"1 of {all_nodes.id}" in names


def test_the_table_of_nodes_is_made_where_it_is_seen(roots: Path) -> None:
    make_experiment(roots / "toy")
    closed = shown("graph", experiment="toy")
    assert not any("Operator" in table.value.columns for table in closed.dataframe)
    opened = shown("graph", experiment="toy", search="mlp")
    assert any("Operator" in table.value.columns for table in opened.dataframe)


def test_every_page_opens_on_every_kind_of_node(all_nodes: CapturedGraph) -> None:
    for name in PAGES:
        page = shown(name, experiment="all-nodes")
        assert [warning.value for warning in page.warning] == []


def _eager_alone(folder: Path) -> Comparison:
    make_run(folder, "eager", work=STEP)
    return compare(load_experiment(folder))


@pytest.mark.parametrize("name", ["overview", "compare", "doctor"])
def test_an_eager_run_alone_shows_what_a_graph_would_gain(roots: Path, name: str) -> None:
    outlook = _eager_alone(roots / "alone")["eager"].outlook
    assert isinstance(outlook, Prediction)
    told = markup(shown(name, experiment="alone"))
    if name == "overview":
        assert f">{format_ratio(outlook.speedup.value)}</span>" in told
        assert escape(predicted_times(outlook)) in told
    else:
        assert escape(prediction_verdict(outlook), quote=False) in unescape(told).replace(
            "</a>", ""
        ).replace('<a href="#predicted">', "")
        assert "What would stop a capture" in told
        assert "GPU idle" in told or name == "doctor"


def test_a_prediction_is_shown_of_the_chosen_run_alone(roots: Path) -> None:
    make_experiment(roots / "toy", ("eager", "graph", "callables"), work=STEP)
    scored = compare(load_experiment(roots / "toy"))["graph"]
    assert isinstance(scored.prediction, Prediction)
    said = escape(scored_text(scored.prediction, scored["step_time"].value))
    assert said in markup(shown("compare", experiment="toy", run="graph"))
    assert said not in markup(shown("compare", experiment="toy", run="callables"))


def test_what_a_wrong_result_gained_is_struck_out_and_warned_of_on_every_page() -> None:
    samples = Path(__file__).parents[3] / "sample_traces"
    sys.argv = ["app.py", str(samples / "moved-inputs")]
    catalogue.roots.cache_clear()
    compared = markup(shown("compare"))
    assert re.search('value doubted">[^<]*x<', compared)
    for name in ("graph", "timeline", "memory", "export"):
        assert "do other work than the step" in markup(shown(name)), name


def test_kernels_stand_in_the_order_of_the_change_of_the_chosen_run() -> None:
    samples = Path(__file__).parents[3] / "sample_traces"
    sys.argv = ["app.py", str(samples / "mlp-train")]
    catalogue.roots.cache_clear()
    for run in ("graph", "callables", "partial", "compile"):
        page = shown("compare", run=run)
        (changes,) = [
            list(frame.value["Change, µs"])
            for frame in page.dataframe
            if "Change, µs" in frame.value.columns
        ]
        sizes = [abs(change) for change in changes if not isnan(change)]
        assert sizes == sorted(sizes, reverse=True), run


def test_pages_without_anything_to_show_are_dimmed_with_the_reason(roots: Path) -> None:
    make_run(roots / "alone", "eager", work=STEP)
    page = shown("compare", experiment="alone")
    helps = {link.value: link.proto.help for link in page.get("page_link")[:11]}
    assert helps["Graph"] == "No run here holds a captured graph"
    assert helps["Ranks"] == "The runs here are of one process each"
    assert not helps["Timeline"]
    assert not helps["Doctor"]
    assert ".st-key-page-graph a" in "".join(str(piece.value) for piece in page.get("html"))


def test_the_tab_and_the_hidden_title_name_experiment_and_page(roots: Path) -> None:
    make_experiment(roots / "toy")
    page = shown("timeline", experiment="toy")
    assert 'class="unseen">Timeline of toy<' in "".join(
        str(each.value) for each in page.get("html")
    )
    page.query_params.update({"experiment": "toy"})

    def title() -> None:
        import streamlit as st

        from graphviz_dash.ui.page.frame import tab_title

        st.text(tab_title("timeline"))
        st.text(tab_title("overview"))

    titled = AppTest.from_function(title)
    titled.query_params["experiment"] = "toy"
    assert [said.value for said in titled.run().text] == [
        "toy · Timeline · graphviz-dash",
        "Overview · graphviz-dash",
    ]


def _titles(page: AppTest) -> list[str]:
    """The experiments of the overview, in its order."""
    return [
        link.value
        for link in page.get("page_link")
        if link.proto.page.endswith("compare") and link.value not in ("Compare", "Compare them")
    ]


def _three(roots: Path) -> None:
    make_experiment(roots / "toy")
    make_run(roots / "alone", "eager", work=STEP)
    make_run(roots / "sync", "eager")
    make_run(roots / "sync", "graph", failure=FAILURE)
    (roots / "toy" / "about.txt").write_text("A toy of <b>two</b> runs\nand more", encoding="utf-8")


def test_the_overview_says_what_each_is_and_its_titles_lead_there(roots: Path) -> None:
    _three(roots)
    page = shown("overview")
    assert _titles(page) == ["alone", "sync", "toy"]
    told = markup(page)
    assert "A toy of &lt;b&gt;two&lt;/b&gt; runs" in told
    assert "and more" not in told
    assert told.count('class="about"') == 3
    title = next(link for link in page.get("page_link") if link.value == "toy")
    assert title.proto.query_string == "experiment=toy"


def test_the_overview_is_searched_filtered_and_sorted(roots: Path) -> None:
    _three(roots)
    assert _titles(shown("overview", find="a toy of")) == ["toy"]
    assert _titles(shown("overview", find="nothing")) == []
    assert _titles(shown("overview", kind="With failures")) == ["sync"]
    assert _titles(shown("overview", kind="Several ranks")) == []
    # What was measured, and what is predicted where nothing was.
    gains = {name: compare(load_experiment(roots / name)).gain for name in ("alone", "sync", "toy")}
    for name in gains:
        comparison(STORE.register(roots / name))
    order = sorted(gains, key=lambda name: (gains[name] is None, -(gains[name] or 0.0)))
    assert _titles(shown("overview", sort="Largest speedup")) == order


def test_any_two_runs_are_compared(roots: Path) -> None:
    make_experiment(roots / "one")
    make_run(roots / "two", "graph", wall_ns=50_000)
    name = catalogue.pair_name("one/graph", "two/graph")
    told = markup(shown("compare", experiment=name))
    assert "graph@two makes a step" in told
    assert "than graph@one" in unescape(told)
    assert chosen(shown("timeline", experiment=name), "runs").value
    lost = markup(shown("compare", experiment=catalogue.pair_name("one/graph", "two/../one/eager")))
    assert "This experiment is not here" in lost


def test_the_graph_of_a_recorded_program_is_first_the_one_with_lines() -> None:
    samples = Path(__file__).parents[3] / "sample_traces"
    sys.argv = ["app.py", str(samples / "recorded-resnet")]
    catalogue.roots.cache_clear()
    assert chosen(shown("graph"), "run").value == "graphed-attributed"
