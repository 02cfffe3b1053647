from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from streamlit.testing.v1 import AppTest

from graphviz_dash.bundle import parts
from graphviz_dash.bundle.launch import write_launch
from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.bundle.write import BundleWriter
from graphviz_dash.features.launch.analysis.launch_costs import analyze_launch_costs
from graphviz_dash.features.launch.narrative import describe_launch_costs
from graphviz_dash.features.launch.page import observers
from graphviz_dash.features.launch.page import page as launch_page
from graphviz_dash.model.observers import ObserverPass
from graphviz_dash.model.timings import StepTiming
from graphviz_dash.ui.page.markup import escape_html
from graphviz_dash.ui.state import catalogue
from graphviz_dash.ui.state.store import STORE
from tests.analysis.launches import lines, recording
from tests.builders import make_experiment
from tests.features.launch.analysis.test_observer_effect import SERIES
from tests.samples import SAMPLES


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The folder that the page looks in; nothing ships with the program."""
    monkeypatch.setattr(sys, "argv", ["app.py", str(tmp_path)])
    monkeypatch.setattr(catalogue, "find_reference_launches", dict)
    catalogue.get_roots.cache_clear()
    yield tmp_path
    catalogue.get_roots.cache_clear()


def _page() -> None:
    import streamlit as st

    from graphviz_dash.features.launch.page import page as launch
    from graphviz_dash.ui.page.frame import draw_top_bar
    from graphviz_dash.ui.page.navigation import list_pages

    st.navigation(list_pages(), position="hidden")
    draw_top_bar("launch")
    launch.render()


def page(**parameters: str | list[str]) -> tuple[AppTest, str]:
    app = AppTest.from_function(_page, default_timeout=60)
    for name, value in parameters.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception, app.exception
    html = [element.proto.body for element in app.get("html")]
    said = [element.value for element in (*app.markdown, *app.caption, *app.header)]
    return app, "\n".join((*html, *said))


def watched(folder: Path) -> None:
    """An experiment whose run ``graph`` was collected with observers and repeat launches."""
    make_experiment(folder / "toy")
    contents = read_bundle(folder / "toy" / "graph")
    assert contents.clean is not None
    lives = tuple(
        msgspec.structs.replace(life, repeat_launches=(StepTiming(9_000, 3_000),) * 5)
        for life in contents.clean.graphs
    )
    with BundleWriter(folder / "seen" / "graph") as writer:
        writer.add(parts.CLEAN, msgspec.structs.replace(contents.clean, graphs=lives))
        for graph in contents.graphs:
            writer.add_graph(graph)
        writer.add(parts.OBSERVERS, ObserverPass(60, SERIES))
        writer.commit(contents.manifest)


def test_without_anything_it_says_what_to_do(root: Path) -> None:
    _, said = page()
    assert "graphviz-dash bench launch" in said


def test_a_recording_alone(root: Path) -> None:
    write_launch(root / "mine", recording(*lines(lambda n: 2000 + n)))
    app, said = page()
    assert "launch cost of linear chains is flat" in said
    folded = [expander.label for expander in app.expander]
    assert any(label.startswith("Fits of mine") for label in folded)
    # The chart shows the medians.
    assert not any(label.startswith("Medians") for label in folded)
    assert "Comparison of recordings" not in said
    assert len(app.get("plotly_chart")) == 1


def test_a_recording_that_changed_on_disk_is_read_again(root: Path) -> None:
    for base in (2000, 9000):
        # Of the same machine, under the same name.
        shutil.rmtree(root / "mine", ignore_errors=True)
        measured = recording(*lines(lambda n, base=base: base + n))
        write_launch(root / "mine", measured)
        os.utime(root / "mine", ns=(base, base))
        _, said = page()
        assert escape_html(describe_launch_costs(analyze_launch_costs(measured))) in said


@pytest.mark.usefixtures("open_folds")
def test_two_recordings_are_compared(root: Path) -> None:
    write_launch(root / "one", recording(*lines(lambda n: 2000 + n)))
    write_launch(root / "two", recording(*lines(lambda n: 9000 + n)))
    app, said = page(recording=["one", "two"])
    assert "Comparison of recordings" in [expander.label for expander in app.expander]
    assert "0 of 12 medians differ by no more" in said


@pytest.mark.usefixtures("open_folds")
def test_charts_are_made_once_and_the_first_is_drawn_before_the_rest(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched(root)
    write_launch(root / "mine", recording(*lines(lambda n: 2000 + n)))
    made: list[str] = []
    for module, chart in ((launch_page, "draw_launch_costs"), (observers, "draw_observers")):
        build = partial(_noted, getattr(module, chart), made, chart)
        monkeypatch.setattr(module, chart, build)
    monkeypatch.setattr(launch_page, "flush_to_browser", lambda: made.append("pause"))
    for _ in range(2):
        app, _ = page(experiment="seen")
        assert len(app.get("plotly_chart")) == 2
    assert made == ["draw_launch_costs", "pause", "draw_observers", "pause"]
    page(experiment="seen", scale="linear")
    assert made[4:] == ["draw_launch_costs", "pause"]
    write_launch(root / "mine", recording(*lines(lambda n: 3000 + n)))
    os.utime(root / "mine", ns=(1, 1))
    page(experiment="seen")
    assert made[6:] == ["draw_launch_costs", "pause"]


def _noted(build: Callable[..., Any], made: list[str], name: str, *args: Any, **named: Any) -> Any:
    made.append(name)
    return build(*args, **named)


@pytest.mark.usefixtures("open_folds")
def test_own_graphs_and_observers_of_the_chosen_experiment(root: Path) -> None:
    watched(root)
    write_launch(root / "mine", recording(*lines(lambda n: 2000 + n)))
    app, said = page(experiment="seen")
    assert "Your graphs: seen" in [expander.label for expander in app.expander]
    folded = [expander.label for expander in app.expander]
    # A table has the times of each graph, and no paragraph repeats them.
    [times] = [
        table.value["Repeat launch, CPU (µs)"].tolist()
        for table in app.dataframe
        if "Repeat vs chain" in table.value.columns
    ]
    assert times == [3.0]
    assert "A repeat launch uses" not in said
    missing = "No expected launch cost for comparison: no launch cost recording for"
    assert missing in said
    assert "Profiler overhead" in folded
    assert "torch.profiler" in said
    assert "Two processes" not in said
    assert "two processes without a profiler differ by" in said
    assert len(app.get("plotly_chart")) == 2


def test_closed_folds_send_no_tables_and_no_charts(root: Path) -> None:
    watched(root)
    write_launch(root / "mine", recording(*lines(lambda n: 2000 + n)))
    app, _ = page(experiment="seen")
    assert "Your graphs: seen" in [expander.label for expander in app.expander]
    assert not app.dataframe
    assert len(app.get("plotly_chart")) == 1


def test_recorded_programs_are_led_to_the_page_of_their_launches(root: Path) -> None:
    shutil.copytree(SAMPLES / "recorded-lightning", root / "seen")
    write_launch(root / "mine", recording(*lines(lambda n: 2000 + n)))
    _, said = page(experiment="seen")
    assert "see the Graph page for its launch times" in said


def test_no_traces_are_read_for_own_graphs_and_observers(root: Path) -> None:
    watched(root)
    write_launch(root / "mine", recording(*lines(lambda n: 2000 + n)))
    app, _ = page(experiment="seen")
    assert "Your graphs: seen" in [expander.label for expander in app.expander]
    assert not STORE.is_loaded(STORE.register(root / "seen"))


@pytest.mark.usefixtures("open_folds")
def test_an_experiment_without_observers_says_how_to_get_them(root: Path) -> None:
    watched(root)
    _, said = page(experiment="toy")
    assert "--observers" in said.replace("\\", "")
    assert "Not timed for" in said
    assert "No expected launch cost for comparison: " in said


def test_a_recording_that_cannot_be_read_is_named(root: Path) -> None:
    (root / "bad").mkdir()
    (root / "bad" / "launch.json").write_text("{}")
    _, said = page()
    assert "Recording cannot be read" in said
