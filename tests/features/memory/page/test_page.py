from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.features.memory.page import memory_pools
from graphviz_dash.features.memory.page import page as memory
from graphviz_dash.ingest.load import load_experiment
from tests.analysis.memory_passes import EAGER, GRAPHED
from tests.app.surfaces import read_markup
from tests.builders import make_experiment
from tests.cli.fixtures import Invoke, invoke
from tests.ingest.formats.test_snapshot_file import SNAPSHOT
from tests.ui.views.apptests import (
    LookIn,
    markup,
    shown,
)


@pytest.mark.usefixtures("open_folds")
def test_memory_says_what_graphs_cost_and_which_graph_uses_what(roots: Path) -> None:
    make_experiment(roots / "toy", memory_pass={"eager": EAGER, "graph": GRAPHED})
    compared = compare_runs(load_experiment(roots / "toy"))
    page = shown("memory", experiment="toy")
    told = markup(page)
    assert "Steady-state memory: graph +24.0 MiB. Activation overhead: graph +57.5%." in told
    assert (
        "Pool 0-1 reserves 70.0 MiB in 2 segments: 41.0 MiB private to one graph, 10.0 MiB" in told
    )
    assert "after capture" in told
    (table,) = page.dataframe
    assert list(table.value["Graph"]) == ["graph-0", "graph-1"]
    assert list(table.value["Shared (MiB)"]) == [10.0, 10.0]
    eager = markup(shown("memory", experiment="toy", run="eager"))
    assert "no graph captured" in eager
    # A total has the title of its metric: steady-state memory is a change everywhere else.
    _, tiles = read_markup(eager)
    assert tiles["Device memory"] == compared["eager"]["device_memory"].text
    assert "Steady-state memory" not in tiles


def test_a_closed_fold_sends_no_table(roots: Path) -> None:
    make_experiment(roots / "toy", memory_pass={"eager": EAGER, "graph": GRAPHED})
    page = shown("memory", experiment="toy")
    assert "Memory of each graph" in [fold.label for fold in page.expander]
    assert not page.dataframe


def test_the_first_chart_is_drawn_before_the_rest_is_sent(
    roots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_experiment(roots / "toy", memory_pass={"eager": EAGER, "graph": GRAPHED})
    sent: list[str] = []
    for module in (memory, memory_pools):
        monkeypatch.setattr(module, "draw_figure", lambda _, key: sent.append(key))
    monkeypatch.setattr(memory, "flush_to_browser", lambda: sent.append("pause"))
    shown("memory", experiment="toy")
    assert sent == ["memory-parts", "pause", "memory-pool"]


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
    command = "graphviz-dash collect --workload old --modes eager,graph -o old-again"
    # Of this class, so that its line breaks in a narrow window.
    assert f'<pre class="command">{command}</pre>' in told
    make_experiment(roots / "mixed", memory_pass={"graph": GRAPHED})
    told = markup(shown("memory", experiment="mixed"))
    assert "graph uses 624 MiB" in told
    assert "eager: the bundle has no memory pass" in told


__all__ = ["invoke"]


def test_a_snapshot_is_shown_by_stream_pool_size_and_line(
    tmp_path: Path, look_in: LookIn, invoke: Invoke
) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(SNAPSHOT))
    assert invoke("import", str(path), "-o", str(tmp_path / "in" / "E")).code == 0
    look_in(tmp_path / "in")
    page = markup(shown("memory", experiment="E"))
    assert "9.00 MiB in 4 live blocks of 24.0 MiB reserved, at the time of the snapshot." in page
    assert "at exit" not in page
    for row in ("stream 5", "pool 0-3", "2 to 4 MiB", "model.py:7 forward"):
        assert row in page
