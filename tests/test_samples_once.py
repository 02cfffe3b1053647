from __future__ import annotations

from msgspec.structs import replace

from graphviz_dash.analysis.comparison import compare as comparing
from graphviz_dash.ingest.load import load_experiment
from tests.samples import SAMPLES, compared_sample


def test_changed_copies_are_compared_again() -> None:
    whole = load_experiment(SAMPLES / "sync-in-step")
    again = load_experiment(SAMPLES / "sync-in-step")
    assert [run is kept for run, kept in zip(whole.runs, again.runs, strict=True)] == [True] * len(
        whole.runs
    )
    shared = comparing.compare_runs(whole)
    assert comparing.compare_runs(again) is shared is compared_sample("sync-in-step")
    fewer = replace(whole, runs=whole.runs[:1])
    changed = replace(whole, runs=tuple(replace(run, label="x") for run in whole.runs[:1]))
    assert len(comparing.compare_runs(fewer).runs) == 1
    assert [run.name for run in comparing.compare_runs(changed).runs] == ["x"]
    assert comparing.compare_runs(whole, baseline=whole.runs[-1].name) is not shared
    assert load_experiment(SAMPLES / "sync-in-step", traces=False).runs[0] is not whole.runs[0]
