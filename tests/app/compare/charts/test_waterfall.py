from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.analysis.nodes.measured_graph import (
    MeasuredGraph,
    find_timing_replays,
    measure_graph,
)
from graphviz_dash.analysis.nodes.whole_graph import expand_graph
from graphviz_dash.app.compare.charts.waterfall import draw_waterfall
from graphviz_dash.charts.palette import ADDED, BASELINE, SAVED
from graphviz_dash.charts.shades import Theme
from graphviz_dash.features.graph.drawing.colours import ColourBy
from graphviz_dash.features.graph.drawing.folded import build_folded_graph
from graphviz_dash.features.graph.drawing.path import (
    NOT_MEASURED_LABEL,
    ON_PATH_LABEL,
    build_path_marks,
)
from graphviz_dash.features.graph.drawing.view import build_dag_view
from graphviz_dash.features.prediction.charts.streams import draw_schedule
from graphviz_dash.ingest.load import load_run
from tests.samples import compared_sample

SAMPLES = Path(__file__).parents[4] / "sample_traces"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("run", ["mlp-train/graph", "tp-transformer/graph-rank1"])
def test_the_bars_lead_from_one_step_to_the_other(theme: Theme, run: str) -> None:
    folder, name = run.split("/")
    found = compared_sample(folder)[name].waterfall
    assert found is not None
    overlap = ["overlap"] if found.has_overlap else []
    ranks = ["waiting for ranks"] if found.before.ranks else []
    figure = draw_waterfall(found, theme)
    (bars,) = figure.data
    unit = {"µs": 1e3, "ms": 1e6}[figure.layout.meta["axis"].split()[0]]
    # Ticks of which more would touch on a phone.
    assert figure.layout.xaxis.nticks == 4
    assert list(bars.y) == [
        found.baseline, "launch gaps", "kernels", "memcpy and memset", *overlap,
        "synchronisation", *ranks, "remainder", found.run,
    ]  # fmt: skip
    assert bars.x[0] * unit == pytest.approx(found.before_ns)
    assert bars.x[-1] * unit == pytest.approx(found.after_ns)
    at = found.before_ns
    for base, length, (_, saved) in zip(
        bars.base[1:-1], bars.x[1:-1], found.saved_by_cause, strict=True
    ):
        low, high = sorted((at, at - saved))
        assert base * unit == pytest.approx(low)
        assert (base + length) * unit == pytest.approx(high)
        at -= saved
    assert at == found.after_ns
    of_kernels = SAVED if found.saved.kernels >= 0 else ADDED
    shades = [getattr(one, theme) for one in (BASELINE, SAVED, of_kernels)]
    assert list(bars.marker.color[:3]) == shades
    assert [
        label for label, hatch in zip(bars.y, bars.marker.pattern.shape, strict=True) if hatch
    ] == ["remainder"]


def _forked() -> tuple[MeasuredGraph, object]:
    run = load_run(SAMPLES / "fork-join" / "graph")
    found = measure_graph(run.graphs[0], run.graphs, find_timing_replays(run))
    assert isinstance(found, MeasuredGraph)
    return found, run


def test_the_critical_path_is_marked_where_not_all_is_on_it() -> None:
    found, _ = _forked()
    whole = expand_graph(load_run(SAMPLES / "fork-join" / "graph"), "graph-0")
    view = build_dag_view(build_folded_graph(whole, found), ColourBy.SLACK, 1.6)
    marked = {box.node for box in view.boxes if box.critical and box.node >= 0}
    assert marked == set(found.path.nodes)
    links = [link for link in view.links if link.critical]
    assert len(links) == len(found.path.nodes) - 1
    assert view.legend[0].label == ON_PATH_LABEL


def test_a_line_has_no_marks() -> None:
    run = load_run(SAMPLES / "mlp-train" / "graph")
    found = measure_graph(run.graphs[0], run.graphs, find_timing_replays(run))
    assert isinstance(found, MeasuredGraph)
    view = build_dag_view(
        build_folded_graph(expand_graph(run, "graph-0"), found), ColourBy.SLACK, 1.6
    )
    assert not any(box.critical for box in view.boxes)
    assert [entry.label for entry in view.legend] == [ON_PATH_LABEL]
    assert draw_schedule(found, "light") is None


def test_without_times_nothing_is_marked() -> None:
    whole = expand_graph(load_run(SAMPLES / "fork-join" / "graph"), "graph-0")
    assert build_path_marks(whole, None).get_label(0) == NOT_MEASURED_LABEL


def test_the_schedules_are_drawn() -> None:
    found, _ = _forked()
    figure = draw_schedule(found, "dark")
    assert figure is not None
    assert list(figure.data[0].x) == [str(one.streams) for one in found.schedules]
