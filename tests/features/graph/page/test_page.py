from __future__ import annotations

from html import unescape
from pathlib import Path

import pytest

from graphviz_dash.features.graph.page import page as graph
from graphviz_dash.model.graph import CapturedGraph
from tests.builders import STEP, make_experiment
from tests.samples import SAMPLES
from tests.ui.views.apptests import (
    LookIn,
    chosen,
    links,
    markup,
    rerun,
    shown,
)


def test_the_graph_says_what_several_streams_would_give(look_in: LookIn) -> None:
    look_in(SAMPLES)
    page = shown("graph", experiment="transformer-train", node="300")
    said = unescape(markup(page))
    assert "Captured on 3 streams with only the required dependencies" in said
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
    assert f"{3 * len(STEP)} of {3 * len(STEP)} GPU records" in told


def test_without_a_node_the_longest_are_offered(roots: Path) -> None:
    make_experiment(roots / "toy")
    page = shown("graph", experiment="toy", node="99")
    assert "node" not in page.query_params
    assert "Longest nodes" in markup(page)
    (table,) = (frame.value for frame in page.dataframe if "µs" in frame.value.columns)
    times = table["µs"].tolist()
    assert times[0] == max(work.duration for work in STEP) / 1e3
    assert times == sorted(times, reverse=True)


def test_nodes_without_times_have_no_column_of_times(look_in: LookIn) -> None:
    look_in(SAMPLES)
    page = shown("graph", experiment="recorded-batching")
    assert "First nodes" in markup(page)
    assert "µs" not in page.dataframe[0].value.columns


def test_details_wait_until_the_drawing_requested_its_view(
    roots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_experiment(roots / "toy")
    done: list[str] = []

    class Asked:
        def wait(self, _: float) -> bool:
            done.append("asked")
            return False

    def note(*_: object) -> None:
        done.append("details")

    monkeypatch.setattr(graph, "get_view_event", lambda _: Asked())
    monkeypatch.setattr(graph, "show_graph_details", note)
    page = shown("graph", experiment="toy")
    assert done == ["asked", "details"]
    # The same drawing stands already, and asks for nothing.
    rerun(page)
    assert done[2:] == ["details"]


def test_nodes_are_searched_by_operator_module_and_source(roots: Path) -> None:
    make_experiment(roots / "toy")
    page = shown("graph", experiment="toy", search="mlp.2")
    found = page.dataframe[-1].value
    wanted = [index for index, work in enumerate(STEP) if work.module == "Mlp.2"]
    assert found["Node"].tolist() == wanted
    rerun(page.text_input(key="choice-search-0").set_value("train.py:22"))
    assert page.dataframe[-1].value["Node"].tolist() == [9]


def test_another_run_forgets_the_graph_and_node_of_the_one_before(roots: Path) -> None:
    make_experiment(roots / "toy", ("eager", "graph", "callables"))
    page = shown("graph", experiment="toy", node="3", colour="time")
    rerun(chosen(page, "run").set_value("callables"))
    assert page.query_params == {"experiment": "toy", "run": "callables", "colour": "time"}
    rerun(page.selectbox(key="choice-colour-0").set_value("category"))
    assert page.query_params == {"experiment": "toy", "run": "callables"}


def test_another_experiment_forgets_what_belonged_to_the_one_before(roots: Path) -> None:
    make_experiment(roots / "one")
    make_experiment(roots / "two")
    page = shown("graph", experiment="one", node="3", colour="kind")
    rerun(page.selectbox(key="choice-experiment-0").set_value("two"))
    assert page.query_params == {"experiment": "two", "colour": "kind"}


def test_links_lead_back_to_what_was_seen_of_the_same_experiment(roots: Path) -> None:
    make_experiment(roots / "one")
    make_experiment(roots / "two")
    page = shown("graph", experiment="one", node="3")
    assert links(page)["Timeline"] == "experiment=one&select=graph%2Fgraph-0%233"
    assert links(page)["Overview"] == ""
    rerun(page)
    assert links(page)["Graph"] == "experiment=one&node=3"
    rerun(page.selectbox(key="choice-experiment-0").set_value("two"))
    assert links(page)["Compare"] == "experiment=two"


def test_a_node_inside_another_is_chosen_in_the_whole(all_nodes: CapturedGraph) -> None:
    page = shown("graph", experiment="all-nodes", graph=all_nodes.id, node="1")
    place = page.query_params["node"]
    assert page.query_params["graph"] == "graph-0"
    assert int(place[0] if isinstance(place, list) else place) > 1
    told = markup(page)
    assert f"node 1 of {all_nodes.id}" in told
    assert "the last iteration of each replay" in told
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


def test_the_graph_of_a_recorded_program_is_first_the_one_with_lines(look_in: LookIn) -> None:
    look_in(SAMPLES / "recorded-resnet")
    assert chosen(shown("graph"), "run").value == "graphed-attributed"
