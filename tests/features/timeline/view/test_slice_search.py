from __future__ import annotations

from pathlib import Path

from graphviz_dash.features.timeline.page.component.ready import load_timeline
from graphviz_dash.features.timeline.view.run import choose_step
from graphviz_dash.features.timeline.view.slice_search import find_slices
from graphviz_dash.ui.state.store import STORE
from tests.samples import SAMPLES


def test_slices_by_name_start_with_the_chosen_step() -> None:
    key = STORE.register(Path(SAMPLES / "fork-join"))
    chosen = choose_step(load_timeline(key, "graph"), None)
    hits = find_slices([chosen], "TANH")
    rows = [int(hit.removeprefix("graph/g")) for hit in hits.hits]
    timeline = chosen.timeline
    assert hits.count == len(rows) > 19
    names = [timeline.gpu_labels.texts[timeline.gpu_labels.codes[row]][0] for row in rows]
    assert all("tanh" in name for name in names)
    trace = STORE.get_run(key, "graph").replay_trace
    assert trace is not None
    assert chosen.step is not None
    first = trace.gpu["ts"][rows[0]]
    assert chosen.step.span_start <= first <= chosen.step.span_end
    assert find_slices([chosen], "no such kernel").hits == []
