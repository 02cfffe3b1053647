from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.memory.report import ByteCategory, MemoryPart, build_pool_map
from graphviz_dash.features.memory.chart import draw_memory, draw_pool_map
from graphviz_dash.features.memory.comparison import MemoryComparison, compare_memory
from graphviz_dash.ingest.load import load_experiment
from tests.analysis.memory_passes import EAGER, GRAPHED, MIB, POOL
from tests.experiments import make_experiment


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> MemoryComparison:
    path = tmp_path_factory.mktemp("memory") / "toy"
    make_experiment(path, memory_pass={"eager": EAGER, "graph": GRAPHED})
    return compare_memory(compare_runs(load_experiment(path)))


def test_the_bars_add_up(result: MemoryComparison) -> None:
    whole = draw_memory(result, "light", outside=True)
    inside = draw_memory(result, "dark", outside=False)
    assert whole is not None
    assert inside is not None
    for place, report in enumerate(result.reports):
        assert sum(bar.x[place] for bar in whole.data) == pytest.approx(report.total / MIB)
    assert sum(bar.x[0] for bar in inside.data) == pytest.approx(100)
    names = [bar.name for bar in whole.data]
    assert names == [part.value for part in MemoryPart if part.value in names]
    assert MemoryPart.OUTSIDE.value not in [bar.name for bar in inside.data]


def test_no_chart_without_a_pass(tmp_path: Path) -> None:
    make_experiment(tmp_path / "toy")
    empty = compare_memory(compare_runs(load_experiment(tmp_path / "toy")))
    assert draw_memory(empty, "light", outside=True) is None


def test_the_map_has_a_row_for_each_graph() -> None:
    found = build_pool_map(GRAPHED, POOL)
    assert (found.size, found.starts) == (70 * MIB, (0, 40 * MIB))
    spans = {row.graph: row.spans for row in found.rows}
    assert spans["graph-0"] == (
        (0, 5 * MIB, ByteCategory.MODEL),
        (5 * MIB, 20 * MIB, ByteCategory.EXCLUSIVE),
        (20 * MIB, 30 * MIB, ByteCategory.SHARED),
    )
    # It goes on where the next segment begins.
    assert spans["graph-1"] == (
        (20 * MIB, 30 * MIB, ByteCategory.SHARED),
        (30 * MIB, 36 * MIB, ByteCategory.EXCLUSIVE),
        (40 * MIB, 60 * MIB, ByteCategory.EXCLUSIVE),
        (60 * MIB, 68 * MIB, ByteCategory.WORKSPACE),
    )
    chart = draw_pool_map(found, "light")
    assert chart is not None
    drawn = {bar.name: sum(bar.x) for bar in chart.data}
    assert drawn == pytest.approx(
        {
            "of one graph": 15 + 26,
            "shared": 2 * 10,
            "library workspaces": 8,
            "the model's own tensors": 5,
        }
    )
    layout = chart.layout
    assert list(layout.yaxis.categoryarray) == ["graph-0", "graph-1"]
    # Told its margins, Plotly draws once.
    assert (layout.xaxis.automargin, layout.yaxis.automargin) == (False, False)
    assert layout.margin.l > 6.6 * len("graph-0  ")


def test_a_pool_without_graphs_has_no_map() -> None:
    bare = msgspec.structs.replace(GRAPHED, graphs=())
    assert draw_pool_map(build_pool_map(bare, POOL), "light") is None
