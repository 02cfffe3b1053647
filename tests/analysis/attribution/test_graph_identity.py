from __future__ import annotations

from graphviz_dash.analysis.attribution.graph_identity import list_graph_identities
from graphviz_dash.model.recording import RecordedGraph
from tests.analysis.comparison.test_recorded_figures import recording
from tests.analysis.scenes import Scene, graph_of, kernel


def of_server(replays: tuple[int, ...]) -> tuple[RecordedGraph, ...]:
    return tuple(
        RecordedGraph(f"graph-{at}", ("serve.py:152",), 5_000, 0, 1, count, 0, True, True)
        for at, count in enumerate(replays)
    )


def test_the_most_replayed_graph_comes_first_and_inputs_tell_them_apart() -> None:
    scene = Scene()
    for at, batch in enumerate((1, 24, 64)):
        begin = 1_000 * (at + 1)
        scene.capture(begin, begin + 500, f"graph-{at}")
        scene.op("aten::add", begin + 10, begin + 20, input_dims="[[], []]")
        scene.op("aten::addmm", begin + 30, begin + 50, input_dims=f"[[512], [{batch}, 256], []]")
        scene.op("aten::mm", begin + 60, begin + 70, input_dims="[[7, 7]]")
    graphs = [graph_of([kernel(0)], name=f"graph-{at}") for at in range(3)]
    seen = recording(1_000, graphs=of_server((0, 24, 15)))
    listed = list_graph_identities(graphs, seen, (scene.trace(),))
    assert [(each.id, each.replays) for each in listed] == [
        ("graph-1", 24),
        ("graph-2", 15),
        ("graph-0", 0),
    ]
    assert [each.input_shape for each in listed] == [(24, 256), (64, 256), (1, 256)]
    assert [each.input_shape for each in list_graph_identities(graphs, seen, ())] == [None] * 3


def test_unnamed_captures_get_no_guessed_input_shape() -> None:
    scene = Scene()
    # Two captures that no range names: which of them is whose cannot be told.
    for begin in (1_000, 2_000):
        scene.capture(begin, begin + 500, None)
        scene.op("aten::mm", begin + 10, begin + 20, input_dims="[[4, 4]]")
    graphs = [graph_of([kernel(0)], name=name) for name in ("graph-0", "graph-1")]
    listed = list_graph_identities(graphs, None, (scene.trace(),))
    assert [(each.id, each.input_shape, each.replays) for each in listed] == [
        ("graph-0", None, None),
        ("graph-1", None, None),
    ]


def test_a_graph_alone_needs_no_shape() -> None:
    scene = Scene()
    scene.capture(1_000, 1_500)
    scene.op("aten::mm", 1_010, 1_020, input_dims="[[4, 4]]")
    (alone,) = list_graph_identities([graph_of([kernel(0)])], None, (scene.trace(),))
    assert alone.input_shape is None
