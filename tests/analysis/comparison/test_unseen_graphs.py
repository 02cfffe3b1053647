from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.comparison.unseen_graphs import find_unseen_graphs
from graphviz_dash.analysis.metrics.caveats import Caveat, CaveatCode, make_caveat
from graphviz_dash.analysis.metrics.low_confidence import GraphSource
from graphviz_dash.app.compare.documents.run import build_unseen_graphs_document
from graphviz_dash.features.graph.diff_narrative import explain_missing_graphs
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.run import Experiment, Run, Source
from tests.analysis.replays.known_replays import line_rows
from tests.analysis.scenes import Scene, graph_of, kernel
from tests.bundle.examples import RECORDING
from tests.experiments import make_run

OWN = graph_of([kernel(0, "gemm"), kernel(1, "relu")])
FOREIGN = graph_of([kernel(0, "solver"), kernel(1, "solver"), kernel(2, "norm")], name="foreign")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run that holds ``OWN``, whose trace launches it twice and ``FOREIGN`` once."""
    scene = Scene()
    scene.replay(OWN, 100, line_rows([0, 1]))
    scene.replay(FOREIGN, 1_000, line_rows([0, 1, 2]))
    scene.replay(OWN, 2_000, line_rows([0, 1]))
    loaded = load_run(make_run(tmp_path / "toy", "graph"))
    return replace(loaded, graphs=(OWN,), replay_trace=scene.trace())


def unseen_graphs(count: int, share: float | None, source: GraphSource) -> Caveat:
    return make_caveat(
        CaveatCode.UNKNOWN_GRAPHS, count=count, launches=3, time_share=share, source=source
    )


def test_launches_that_look_like_no_graph_of_the_run(run: Run) -> None:
    assert find_unseen_graphs(run, None) == unseen_graphs(1, 3 / 7, GraphSource.CAPTURE)
    (compared,) = compare_runs(Experiment(run.path.parent, (run,))).runs
    assert compared.low_confidence[-1] == find_unseen_graphs(run, None)


def test_all_launches_of_a_run_without_graphs(run: Run) -> None:
    source = Source("trace.json", "Kineto trace", 1, "0" * 64)
    imported = msgspec.structs.replace(run.manifest, sources=(source,))
    alone = replace(run, graphs=(), manifest=imported)
    assert find_unseen_graphs(alone, None) == unseen_graphs(3, 1.0, GraphSource.IMPORT)
    assert (
        "3 of 3 graph launches in the trace, 100% of its GPU time"
        in explain_missing_graphs([alone])[-1]
    )


def test_none_where_every_launch_is_known(run: Run) -> None:
    assert find_unseen_graphs(replace(run, graphs=(OWN, FOREIGN)), None) is None
    assert find_unseen_graphs(replace(run, replay_trace=None), None) is None
    # The graphs of its own capture, which could not be read.
    assert find_unseen_graphs(replace(run, graphs=()), None) is None


@pytest.mark.parametrize(
    ("counted", "unseen"),
    [(2, (1, 3 / 7)), (0, (3, 1.0)), (3, None), (1, (2, None))],
)
def test_of_a_program_the_recorder_has_counted_its_own(
    run: Run, counted: int, unseen: tuple[int, float | None] | None
) -> None:
    """One launch is not attributed, so its graph and its time are unknown."""
    graphs = (msgspec.structs.replace(RECORDING.graphs[0], window_replays=counted),)
    recorded = replace(run, recording=msgspec.structs.replace(RECORDING, graphs=graphs))
    found = find_unseen_graphs(recorded, None)
    assert found == (unseen and unseen_graphs(*unseen, GraphSource.RECORDER))


def test_json_has_the_number_and_the_share(run: Run) -> None:
    (compared,) = compare_runs(Experiment(run.path.parent, (run,))).runs
    document = build_unseen_graphs_document(compared)
    assert msgspec.to_builtins(document) == {
        "launches": 1,
        "total_launches": 3,
        "time_share": 3 / 7,
    }
