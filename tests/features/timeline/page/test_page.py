from __future__ import annotations

import shutil
from pathlib import Path

from graphviz_dash.importers.bundles import import_files
from graphviz_dash.model.run import ExecutionMode
from tests.builders import make_experiment
from tests.ui.views.apptests import (
    LookIn,
    chosen,
    markup,
    page_links,
    rerun,
    shown,
)


def test_the_timeline_shows_the_baseline_and_the_fastest_run_first(roots: Path) -> None:
    make_experiment(roots / "toy", ("eager", "graph", "partial"))
    page = shown("timeline", experiment="toy")
    assert chosen(page, "runs").value == ["eager", "graph"]
    rerun(chosen(page, "runs").set_value(["partial", "graph"]))
    assert page.query_params["runs"] == ["partial", "graph"]
    rerun(page.selectbox(key="choice-step-0").set_value("1"))
    assert page.query_params["step"] == "1"
    assert "Times come from the traced pass" in markup(page)


def test_the_baseline_of_recorded_programs_is_on_top(
    look_in: LookIn,
) -> None:
    look_in(Path("sample_traces"))
    page = shown("timeline", experiment="recorded-megatron")
    assert chosen(page, "runs").value == ["local", "full-iteration"]


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
    assert "Nothing to compare: under the profiler, " in told
    assert "The runs were imported" in markup(shown("doctor", experiment="foreign"))


def test_a_selected_node_brings_its_run_and_a_link_to_the_graph(roots: Path) -> None:
    make_experiment(roots / "toy", ("eager", "graph", "partial"))
    page = shown("timeline", experiment="toy", select="partial/graph-0#4")
    assert chosen(page, "runs").value == ["eager", "graph", "partial"]
    link = page_links(page)[-1]
    assert link.label == "Show node 4 in the graph"
    assert link.query == "experiment=toy&run=partial&graph=graph-0&node=4"
