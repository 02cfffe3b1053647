from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from graphviz_dash.analysis.replays.replays import get_identities, match_replays
from graphviz_dash.analysis.trace.steps import find_steps
from graphviz_dash.features.ladder.analysis.segments import PieceKind, divide_step
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.absence import Missing

SAMPLES = Path(__file__).parents[4] / "sample_traces"


def test_layers_with_eager_work_between() -> None:
    run = load_run(SAMPLES / "gpt-train" / "partial")
    trace = run.replay_trace
    assert trace is not None
    match = match_replays(run.graphs, trace, get_identities(run))
    marked = find_steps(trace)
    step = divide_step(trace, marked, match)
    assert not isinstance(step, Missing)
    drawn = next(each for each in marked if each.index == step.step)
    assert step.replays == drawn.graph_launches
    assert sum(piece.kernels for piece in step.pieces) == len(drawn.gpu_rows)
    assert step.pieces[0].start_ns == 0
    assert step.pieces[-1].end_ns == step.duration_ns == drawn.duration_ns
    assert all(before.end_ns == after.start_ns for before, after in pairwise(step.pieces))
    # Gaps between eager kernels are idle time here as on every other page.
    assert sum(piece.busy_ns for piece in step.pieces) == drawn.busy_ns
    assert (
        step.compute_share(PieceKind.IDLE)
        == (drawn.duration_ns - drawn.busy_ns) / drawn.duration_ns
    )
    eager = [piece for piece in step.pieces if piece.kind is PieceKind.EAGER]
    busy_ns = sum(piece.busy_ns for piece in eager)
    assert busy_ns == pytest.approx(step.compute_share(PieceKind.EAGER) * step.duration_ns)
    assert (
        sum(piece.duration_ns for piece in eager)
        < step.compute_share(PieceKind.IDLE) * step.duration_ns
    )
    known = {graph.id for graph in run.graphs}
    replays = [piece for piece in step.pieces if piece.kind is PieceKind.REPLAY]
    assert {piece.graph for piece in replays} <= known


def test_no_marked_steps() -> None:
    run = load_run(SAMPLES / "gpt-train" / "partial")
    trace = run.replay_trace
    assert trace is not None
    match = match_replays(run.graphs, trace, get_identities(run))
    missing = divide_step(trace, (), match)
    assert isinstance(missing, Missing)
