from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.analysis.loop.family_report import build_loop_report
from graphviz_dash.features.ladder.analysis.size_comparison import compare_sizes
from graphviz_dash.ingest.load import load_outlines
from graphviz_dash.model.absence import Missing
from tests.loops import make_server, replay_ns


def test_two_ladders(tmp_path: Path) -> None:
    make_server(tmp_path, "a", sizes=(8, 16, 32))
    make_server(tmp_path, "b", sizes=(16, 24, 32), gpu_ns=lambda size: 2 * replay_ns(size))
    reports = [build_loop_report(run) for run in load_outlines(tmp_path)]
    known = [report for report in reports if not isinstance(report, Missing)]
    (compared,) = compare_sizes(known)
    assert (compared.family, compared.axis) == ("decode", "batch")
    assert [(row.size, sorted(row.members)) for row in compared.rows] == [
        (8, ["a"]),
        (16, ["a", "b"]),
        (24, ["b"]),
        (32, ["a", "b"]),
    ]
    assert compared.rows[1].compute_change("a", "b") == pytest.approx(1, abs=0.01)
    assert compared.rows[0].compute_change("a", "b") is None
    assert compare_sizes(known[:1]) == ()
