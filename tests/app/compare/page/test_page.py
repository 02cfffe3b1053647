from __future__ import annotations

from html import escape, unescape
from math import isnan
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.prediction.predict import Prediction
from graphviz_dash.analysis.step_comparison.waterfall import CompileSavings
from graphviz_dash.app.compare.page import page
from graphviz_dash.app.report.report import generate_efficiency_section
from graphviz_dash.features.efficiency.analysis import ceilings_choice
from graphviz_dash.features.efficiency.analysis.report import (
    EfficiencyReport,
    measure_run_efficiency,
)
from graphviz_dash.features.efficiency.narrative import describe_efficiency
from graphviz_dash.features.prediction.stream_narrative import describe_plan
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.answer import build_run_answer
from graphviz_dash.narrative.prediction import format_prediction_score
from graphviz_dash.ui.state import catalogue
from tests.analysis.parallel.training import chain_plan, write_parallel_experiment
from tests.builders import STEP, make_experiment, make_run
from tests.features.efficiency.steps import make_ceilings
from tests.samples import SAMPLES, compared_sample
from tests.ui.views.apptests import (
    LookIn,
    assert_answers,
    chosen,
    markup,
    rerun,
    shown,
)


@pytest.mark.usefixtures("open_folds")
def test_compare_shows_the_figures_of_the_comparison(roots: Path) -> None:
    path = make_experiment(roots / "toy", ("eager", "graph", "compile"))
    result = compare_runs(load_experiment(path))
    page = shown("compare", experiment="toy")
    told = markup(page)
    for run in result.runs:
        for figure in run.metrics:
            if figure.value is not None:
                assert f">{figure.text}</span>" in told, (run.name, figure.metric.id)
    assert len(page.get("plotly_chart")) == 4
    assert page.query_params["experiment"] == "toy"


def test_closed_folds_of_compare_send_no_tables_and_no_charts(roots: Path) -> None:
    make_experiment(roots / "toy")
    page = shown("compare", experiment="toy")
    labels = [fold.label for fold in page.expander]
    assert "Kernels per traced step" in labels
    assert [label for label in labels if "Method and matched kernels" in label]
    # Shares of the difference; waterfall, breakdown and iterations.
    assert len(page.dataframe) == 1
    assert len(page.get("plotly_chart")) == 3
    assert not page.text_input


def test_compare_shows_the_prediction_beside_the_measurement(roots: Path) -> None:
    path = make_experiment(roots / "toy")
    run = compare_runs(load_experiment(path))["graph"]
    assert run.prediction is not None
    page = shown("compare", experiment="toy")
    assert format_prediction_score(run.prediction, run["step_time"].value) in markup(page)


def test_compare_holds_the_run_of_the_address_against_the_baseline(roots: Path) -> None:
    path = make_experiment(roots / "toy", ("eager", "graph", "compile"))
    result = compare_runs(load_experiment(path))
    page = shown("compare", experiment="toy", run="compile")
    assert_answers(page, build_run_answer(result["compile"]))
    rerun(chosen(page, "run").set_value("graph"))
    assert_answers(page, build_run_answer(result["graph"]))
    assert "run" not in page.query_params  # the fastest is what an address without it means
    rerun(chosen(page, "run").set_value("compile"))
    assert page.query_params["run"] == "compile"


def test_compare_divides_a_compiled_run_by_cause(roots: Path) -> None:
    path = make_experiment(roots / "toy", ("eager", "compile-default", "compile"))
    parts = compare_runs(load_experiment(path))["compile"].compile_parts
    assert isinstance(parts, CompileSavings)
    page = shown("compare", experiment="toy", run="compile")
    table = next(one.value for one in page.dataframe if "Part" in one.value.columns)
    assert table["Part"].tolist() == ["compilation (compile-default)", "graphs"]
    for row, part in enumerate((parts.compilation, parts.graphs)):
        assert table["Difference (µs)"][row] == -part.total / 1e3
        for cause, saved in part.list_items():
            column = f"{cause.value.capitalize()} (µs)"
            assert not saved or table[column][row] == -saved / 1e3


def _kernels(page: AppTest) -> Any:
    return next(one.value for one in page.dataframe if "Kernel" in one.value.columns)


@pytest.mark.usefixtures("open_folds")
def test_the_kernels_are_searched_by_name_and_category(roots: Path) -> None:
    make_experiment(roots / "toy")
    page = shown("compare", experiment="toy")
    table = _kernels(page)
    assert list(table.columns)[:7] == [
        "Kernel",
        "Category",
        "eager (count)",
        "eager (µs)",
        "graph (count)",
        "graph (µs)",
        "Change (µs)",
    ]
    adam = table[table["Full name"].str.contains("multi_tensor")].iloc[0]
    assert (adam["eager (µs)"], adam["graph (µs)"], adam["Change (µs)"]) == (3.0, 3.0, 0.0)
    field = page.text_input(key="choice-kernel-0")
    rerun(field.set_value("Cutlass"))
    assert _kernels(page)["Category"].tolist() == ["gemm"]
    assert page.query_params["kernel"] == "Cutlass"
    again = shown("compare", experiment="toy", kernel="reduction")
    assert _kernels(again)["Category"].tolist() == ["reduction"]


def test_a_run_on_several_streams_is_one_more_mode(roots: Path) -> None:
    plan = chain_plan(4)
    write_parallel_experiment(roots / "training", plan)
    page = shown("compare", experiment="training", run="parallel")
    assert describe_plan("parallel", plan)[0] in unescape(markup(page))
    tried = next(
        one.value for one in page.dataframe if "Edges between streams" in one.value.columns
    )
    assert tried["Streams"].tolist() == ["1", "2", "4, chosen"]
    graph = unescape(markup(shown("graph", experiment="training", run="graph", node="9")))
    # The operators that the run observed tell what the plain graph needs.
    assert "overwrites its output: float32 [16]" in graph


@pytest.mark.usefixtures("open_folds")
def test_figures_carry_names_as_text_too(roots: Path) -> None:
    folder = roots / "toy"
    make_run(folder, "eager")
    make_run(folder, "graph", name="<i>graph</i>")
    page = shown("compare", experiment="toy")
    for chart in page.get("plotly_chart"):
        assert "<i>" not in chart.proto.spec
        assert chart.proto.theme == ""


def test_a_prediction_is_shown_of_the_chosen_run_alone(roots: Path) -> None:
    make_experiment(roots / "toy", ("eager", "graph", "callables"), work=STEP)
    scored = compare_runs(load_experiment(roots / "toy"))["graph"]
    assert isinstance(scored.prediction, Prediction)
    said = escape(format_prediction_score(scored.prediction, scored["step_time"].value))
    assert said in markup(shown("compare", experiment="toy", run="graph"))
    assert said not in markup(shown("compare", experiment="toy", run="callables"))


@pytest.mark.usefixtures("open_folds")
def test_kernels_stand_in_the_order_of_the_change_of_the_chosen_run(
    look_in: LookIn,
) -> None:
    look_in(SAMPLES / "mlp-train")
    for run in ("graph", "callables", "partial", "compile"):
        page = shown("compare", run=run)
        (changes,) = [
            list(frame.value["Change (µs)"])
            for frame in page.dataframe
            if "Change (µs)" in frame.value.columns
        ]
        sizes = [abs(change) for change in changes if not isnan(change)]
        assert sizes == sorted(sizes, reverse=True), run


def test_two_runs_of_different_work_are_told_so(look_in: LookIn) -> None:
    look_in(SAMPLES)
    name = catalogue.format_pair_name("gpt-train/graph", "gpt-wide/graph")
    told = markup(shown("memory", experiment=name))
    assert "the two runs differ in layers (2, 4); hidden (256, 2048); heads (4, 16)" in told
    alike = catalogue.format_pair_name("gpt-train/eager", "gpt-train/graph")
    assert "the two runs differ" not in markup(shown("memory", experiment=alike))


def test_any_two_runs_are_compared(roots: Path) -> None:
    make_experiment(roots / "one")
    make_run(roots / "two", "graph", wall_ns=50_000)
    name = catalogue.format_pair_name("one/graph", "two/graph")
    told = markup(shown("compare", experiment=name))
    assert "Different workloads: graph@two is" in told
    assert "than graph@one" in unescape(told)
    assert chosen(shown("timeline", experiment=name), "runs").value
    lost = markup(
        shown("compare", experiment=catalogue.format_pair_name("one/graph", "two/../one/eager"))
    )
    assert "Experiment not found" in lost


def test_steps_of_a_server_are_listed_by_kind_before_its_charts(look_in: LookIn) -> None:
    look_in(SAMPLES)
    page = shown("compare", experiment="recorded-vllm")
    headings = [heading.value for heading in page.header]
    assert headings.index("Steps by mode") < headings.index("Step time breakdown")
    told = markup(page)
    assert "1.99 ms" in told  # the median decode step


def test_a_killed_server_did_not_fail_and_its_window_says_nothing_about_graphs(
    look_in: LookIn,
) -> None:
    look_in(SAMPLES)
    told = markup(shown("compare", experiment="recorded-sglang"))
    assert "<b>default-sizes was killed</b> while it was recorded" in told
    assert "failed" not in told.replace('class="failed"', "")
    run = compared_sample("recorded-sglang")["default-sizes"]
    share = run["graph_time_share"]
    assert share.value is None
    assert share.missing is not None
    assert "only steps without a graph" in share.missing.reason
    # They do not divide the median step, which most often replayed a graph.
    assert run.time_by_category == share.missing


def test_the_sentence_names_the_largest_savings(
    look_in: LookIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = (make_ceilings("NVIDIA H200"),)
    monkeypatch.setattr(ceilings_choice, "load_shipped_ceilings", lambda: limits)
    look_in(SAMPLES)
    text = unescape(markup(shown("compare", experiment="experts", run="graph")))
    assert "within 20% of the hardware limit; " in text
    assert "could go: " in text


def test_the_sentence_covers_all_graphs_of_a_step(
    look_in: LookIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = (make_ceilings("NVIDIA H200"),)
    monkeypatch.setattr(ceilings_choice, "load_shipped_ceilings", lambda: limits)
    look_in(SAMPLES)
    text = unescape(markup(shown("compare", experiment="gpt-wide", run="partial")))
    comparison = compare_runs(load_experiment(SAMPLES / "gpt-wide"))["partial"]
    assert not isinstance(comparison.waterfall, Missing)
    report = measure_run_efficiency(comparison.run, pairs=comparison.waterfall.pairs)
    assert isinstance(report, EfficiencyReport)
    assert len(report.graphs) == 14
    sentence = describe_efficiency(report)
    assert sentence.startswith("The graphs spend ")
    assert " per step within 20% of the hardware limit; " in sentence
    assert sentence in text
    assert sentence in unescape("".join(generate_efficiency_section(comparison)))


def test_no_sentence_without_limits(look_in: LookIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings_choice, "load_shipped_ceilings", lambda: ())
    look_in(SAMPLES)
    text = unescape(markup(shown("compare", experiment="decode")))
    assert "hardware limit" not in text


def test_a_run_without_a_baseline_has_the_sentence(look_in: LookIn) -> None:
    look_in(SAMPLES)
    text = unescape(markup(shown("compare", experiment="small-products")))
    assert "The graph spends 18.2 µs of 129 µs within 20% of the hardware limit; " in text


def test_nothing_is_reserved_for_nodes_without_operators(look_in: LookIn) -> None:
    look_in(SAMPLES)
    assert "hardware-limit" not in markup(shown("compare", experiment="recorded-vllm"))


def test_its_place_is_reserved_before_the_graph_is_read(
    look_in: LookIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page below stands still while the graph is read."""
    limits = (make_ceilings("NVIDIA H200"),)
    monkeypatch.setattr(ceilings_choice, "load_shipped_ceilings", lambda: limits)
    monkeypatch.setattr(page, "show_hardware_limit", lambda *_: None)
    look_in(SAMPLES)
    reserved = '<p class="muted hardware-limit"></p>'
    assert reserved in markup(shown("compare", experiment="experts", run="graph"))
