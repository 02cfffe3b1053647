from __future__ import annotations

from html import unescape

import pytest

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.app.compare.page import page
from graphviz_dash.app.report.report import generate_efficiency_section
from graphviz_dash.features.efficiency.analysis import ceilings_choice
from graphviz_dash.features.efficiency.analysis.report import (
    EfficiencyReport,
    measure_run_efficiency,
)
from graphviz_dash.features.efficiency.narrative import describe_efficiency
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.absence import Missing
from tests.features.efficiency.steps import make_ceilings
from tests.samples import SAMPLES
from tests.ui.views.apptests import LookIn, markup, shown


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
