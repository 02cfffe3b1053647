from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.analysis.step_comparison.waterfall import CompileSavings, Waterfall
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.narrative.equation import describe_compile_savings
from tests.experiments import make_experiment


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    modes = ("eager", "graph", "compile-default", "compile")
    path = make_experiment(tmp_path_factory.mktemp("compiled") / "toy", modes)
    return compare_runs(load_experiment(path))


def test_both_parts_add_up_to_what_is_saved(toy: Comparison) -> None:
    run = toy["compile"]
    parts = [run[metric] for metric in ("compile_saving", "graph_saving")]
    assert [part.value for part in parts] == [
        (toy["eager"].step.value or 0) - (toy["compile-default"].step.value or 0),
        (toy["compile-default"].step.value or 0) - (run.step.value or 0),
    ]
    assert sum(part.value or 0 for part in parts) == run.saving.value
    assert all(part.spread is not None for part in parts)


def test_so_do_the_parts_of_the_equation(toy: Comparison) -> None:
    run = toy["compile"]
    parts, equation = run.compile_parts, run.waterfall
    compiled = toy["compile-default"].waterfall
    assert isinstance(parts, CompileSavings)
    assert isinstance(equation, Waterfall)
    assert isinstance(compiled, Waterfall)
    assert parts.run_without_graphs == "compile-default"
    assert parts.compilation == compiled.saved
    assert parts.compilation + parts.graphs == equation.saved


def test_it_is_said_in_a_sentence(toy: Comparison) -> None:
    run = toy["compile"]
    said = describe_compile_savings(run)
    assert said.startswith("Compared with eager, compilation alone saves ")
    assert " per step, as in compile-default. Graphs of compile save another " in said
    assert run["compile_saving"].text in said
    assert run["graph_saving"].text in said
    assert describe_compile_savings(toy["graph"]) == ""


def test_other_modes_have_no_parts_and_say_why(toy: Comparison, tmp_path: Path) -> None:
    assert isinstance(toy["graph"].compile_parts, Missing)
    alone = compare_runs(load_experiment(make_experiment(tmp_path / "toy", ("eager", "compile"))))
    missing = alone["compile"]["graph_saving"].missing
    assert missing is not None
    assert missing.fact is Fact.COMPILED_STEP
    assert "compile-default" in missing.reason


def test_a_compiled_run_without_graphs_lacks_them_for_its_mode(toy: Comparison) -> None:
    missing = toy["compile-default"]["graphs"].missing
    assert missing is not None
    assert missing.reason == "mode compile-default captures no graph"
