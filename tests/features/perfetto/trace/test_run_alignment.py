from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from graphviz_dash.errors import InputError
from graphviz_dash.features.perfetto.trace.run_alignment import (
    MAX_BINS,
    _choose_bin_width,
    align_runs,
)
from graphviz_dash.ingest.load import load_experiment
from tests.builders import make_experiment


def test_first_steps_start_together_at_the_begin_of_a_bin(tmp_path: Path) -> None:
    alignment = align_runs(load_experiment(make_experiment(tmp_path / "toy")))
    starts = {run.steps[0].start + run.shift for run in alignment.runs}
    assert starts == {alignment.at}
    assert alignment.at % alignment.bin_ns == 0
    assert all(run.has_marked_steps for run in alignment.runs)
    longest = max(run.steps[0].duration_ns for run in alignment.runs)
    assert alignment.first_step == (alignment.at, alignment.at + longest)


def test_nothing_lies_before_zero(tmp_path: Path) -> None:
    for run in align_runs(load_experiment(make_experiment(tmp_path / "toy"))).runs:
        assert int(run.trace.gpu["ts"].to_numpy().min()) + run.shift >= 0
        assert int(run.trace.runtime["ts"].to_numpy().min()) + run.shift >= 0


def test_runs_without_a_trace_are_named_with_the_reason(tmp_path: Path) -> None:
    experiment = load_experiment(make_experiment(tmp_path / "toy"))
    eager, graph = experiment.runs
    alignment = align_runs(replace(experiment, runs=(eager, replace(graph, replay_trace=None))))
    assert [run.run.name for run in alignment.runs] == ["eager"]
    ((name, reason),) = alignment.skipped
    assert name == "graph"
    assert reason
    with pytest.raises(InputError, match=r"no run with a trace of its steps \(graph: "):
        align_runs(replace(experiment, runs=(replace(graph, replay_trace=None),)))


@pytest.mark.parametrize(
    ("longest", "width"),
    [
        (0, 1_000),
        (1_000 * MAX_BINS, 1_000),
        (1_000 * MAX_BINS + 1, 2_000),
        (2_001 * MAX_BINS, 5_000),
        (5_001 * MAX_BINS, 10_000),
    ],
)
def test_bins_are_round_and_not_too_many(longest: int, width: int) -> None:
    assert _choose_bin_width(longest) == width
