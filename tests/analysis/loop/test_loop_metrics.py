from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.analysis.comparison.recorded_figures import compute_loop_metrics
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.run import Run
from tests.loops import make_server, replay_ns


def figures(run: Run) -> dict[str, float | None]:
    return {figure.metric.id: figure.value for figure in compute_loop_metrics(run)}


def test_a_server(tmp_path: Path) -> None:
    requests = [8] * 100 + [16] * 100 + [12] * 100 + [40] * 100
    run = load_run(make_server(tmp_path, sizes=(8, 16), requests=requests))
    known = figures(run)
    # Samples lie up to 2 us above the replays, 1 us in the median.
    assert known["loop_replay"] == pytest.approx((replay_ns(8) + 2 * replay_ns(16)) / 3, abs=1_000)
    # A graph for 12 would take 40 us less than that for 16.
    assert known["loop_padding"] == pytest.approx(40_000 / 4, abs=500)
    padding = next(each for each in compute_loop_metrics(run) if each.metric.id == "loop_padding")
    assert padding.spread is not None
    assert 9_000 < padding.spread.low < 10_000 < (padding.spread.high or 0) < 11_000
    assert known["loop_fallbacks"] == 0.25
    assert known["loop_startup"] == 2 * (20_000_000 + 40_000)


def test_padding_of_unlabelled_requests_is_unknown(tmp_path: Path) -> None:
    known = figures(load_run(make_server(tmp_path, method=None)))
    assert known["loop_padding"] is None
    assert known["loop_replay"] is not None
