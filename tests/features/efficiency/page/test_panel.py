from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from graphviz_dash.features.efficiency.analysis import ceilings_choice
from graphviz_dash.features.efficiency.analysis.report import (
    EfficiencyReport,
    measure_run_efficiency,
)
from graphviz_dash.features.efficiency.page import panel
from graphviz_dash.ingest.load import load_run
from graphviz_dash.ui.state.store import STORE
from graphviz_dash.units import format_ns, format_percent
from tests.cli.fixtures import Invoke
from tests.features.efficiency.steps import make_ceilings
from tests.samples import SAMPLES
from tests.ui.views.apptests import LookIn, markup, rerun, shown


@pytest.fixture
def with_limits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ship limits of the samples' GPU, which no page shown before or afterwards has."""
    monkeypatch.setattr(
        ceilings_choice, "load_shipped_ceilings", lambda: (make_ceilings("NVIDIA H200"),)
    )
    STORE.close(SAMPLES / "gpt-train")
    yield
    STORE.close(SAMPLES / "gpt-train")


def open_panel(monkeypatch: pytest.MonkeyPatch) -> None:
    original = panel.st.expander

    def expander(label: str, **options: Any) -> Any:
        return original(label, **{**options, "expanded": label == "Hardware limits"})

    monkeypatch.setattr(panel.st, "expander", expander)


def show(look_in: LookIn, experiment: str = "gpt-train", **parameters: str) -> AppTest:
    look_in(SAMPLES)
    return shown("graph", experiment=experiment, run="graph", **parameters)


@pytest.mark.usefixtures("with_limits")
def test_the_panel_shows_sentence_table_and_changes(
    look_in: LookIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_panel(monkeypatch)
    page = show(look_in)
    text = unescape(markup(page))
    assert "within 20% of the hardware limit" in text
    assert "by fusing" in text
    table = next(frame.value for frame in page.dataframe if "Above the limit (µs)" in frame.value)
    excess = table["Above the limit (µs)"].tolist()
    assert excess == sorted(excess, reverse=True)
    assert "aten::mm" in table["Operator"].tolist()
    captions = " ".join(caption.value for caption in page.caption)
    assert "measured on another GPU of the same model" in captions


@pytest.mark.usefixtures("with_limits")
def test_groups_follow_the_address(look_in: LookIn, monkeypatch: pytest.MonkeyPatch) -> None:
    open_panel(monkeypatch)
    page = rerun(show(look_in, **{"limits-by": "line"}))
    table = next(frame.value for frame in page.dataframe if "Above the limit (µs)" in frame.value)
    assert any(".py:" in name for name in table["Source line"])


def test_missing_limits_are_explained(look_in: LookIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings_choice, "load_shipped_ceilings", lambda: ())
    open_panel(monkeypatch)
    text = unescape(markup(show(look_in, "mlp-train")))
    assert "the run contains no measured limits of NVIDIA H200" in text
    assert "graphviz-dash bench limits" in text


CASE = Path(__file__).parents[3] / "cases" / "eager-shapes-h100.json.gz"
"""An eager step of an H100 with shapes: a normalization by separate operators."""


def import_case(invoke: Invoke, folder: Path, change: Callable[[str], str] | None = None) -> None:
    source = CASE
    if change is not None:
        source = folder.parent / "changed.json"
        source.write_text(change(gzip.decompress(CASE.read_bytes()).decode()))
    result = invoke("import", str(source), "-o", str(folder))
    assert result.code == 0, result.err


def show_imported(look_in: LookIn, root: Path, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    original = panel.st.expander

    def expander(label: str, **options: Any) -> Any:
        return original(label, **{**options, "expanded": label.startswith("Hardware limits of")})

    monkeypatch.setattr(panel.st, "expander", expander)
    look_in(root)
    return shown("timeline", experiment="case")


def test_an_imported_trace_with_shapes_has_limits_on_the_timeline(
    look_in: LookIn, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_case(invoke, tmp_path / "case")
    page = show_imported(look_in, tmp_path, monkeypatch)
    sentence = next(line for line in unescape(markup(page)).split("<p") if "hardware limit" in line)
    assert "The step spends" in sentence
    assert "by fusing" in sentence
    run = next((tmp_path / "case").glob("*/manifest.json")).parent
    text = " ".join(invoke("efficiency", str(run)).out.split())
    # The page and the command share the sentence.
    assert text.startswith(sentence.partition(">")[2].partition("<")[0])


def test_a_trace_without_shapes_says_how_to_record_them(
    look_in: LookIn, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_case(invoke, tmp_path / "case", lambda text: text.replace('"Input Dims"', '"Dims"'))
    page = show_imported(look_in, tmp_path, monkeypatch)
    # A command is not Markdown, which would turn two hyphens into a dash.
    assert "<pre>torch.profiler.profile(record_shapes=True)</pre>" in markup(page)


def test_a_recorded_graph_without_operators_shows_how_to_record_them(
    look_in: LookIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_panel(monkeypatch)
    look_in(SAMPLES)
    page = shown("graph", experiment="recorded-decoder", run="frugal")
    assert " --attribute -- python " in markup(page)


@pytest.mark.usefixtures("with_limits")
def test_a_node_shows_its_limit(look_in: LookIn) -> None:
    text = unescape(markup(show(look_in, node="10")))
    run = load_run(SAMPLES / "gpt-train" / "graph")
    report = measure_run_efficiency(run)
    assert isinstance(report, EfficiencyReport)
    limit = report.places[10]
    assert "Hardware limit" in text
    assert f"{format_percent(limit.share)}" in text
    assert format_ns(limit.limit_ns) in text


def test_achieved_rates_need_no_limits(look_in: LookIn, monkeypatch: pytest.MonkeyPatch) -> None:
    open_panel(monkeypatch)
    page = show(look_in, "transformer-train")
    table = next(frame.value for frame in page.dataframe if "Achieved GB/s" in frame.value)
    assert "Above the limit (µs)" not in table
    row = table[table["Operator"] == "aten::mm"].iloc[0]
    run = load_run(SAMPLES / "transformer-train" / "graph")
    report = measure_run_efficiency(run)
    assert isinstance(report, EfficiencyReport)
    calls = [limit for limit in report.limits if limit.unit.call and limit.unit.call.name == "mm"]
    works = [limit.unit.work for limit in calls]
    time_ns = sum(limit.time_ns for limit in calls)
    flops = sum(work.flops for work in works if work is not None)
    assert row["Achieved TFLOP/s"] == pytest.approx(flops / time_ns / 1e3)
    captions = " ".join(caption.value for caption in page.caption)
    assert "possible rates are unknown" in captions.replace("\\", "")
