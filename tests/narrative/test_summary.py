from __future__ import annotations

import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.analysis.metrics.registry import METRICS
from graphviz_dash.narrative.summary import (
    build_summary_tiles,
    format_break_even_title,
    format_metric_title,
    list_provenance,
)
from tests.samples import compared_sample


@pytest.fixture(scope="module")
def sample() -> Comparison:
    return compared_sample("mlp-train")


def test_a_tile_has_the_run_s_figure_and_the_baseline_s(sample: Comparison) -> None:
    run = sample["graph"]
    tiles = {tile.metric: tile for tile in build_summary_tiles(sample, run)}
    assert next(iter(tiles)) == "speedup"
    assert tiles["step_time"].value == run["step_time"].text
    assert tiles["step_time"].note == f"eager {sample['eager']['step_time'].text}"
    assert tiles["break_even"].note == f"one-time cost {run['one_off_cost'].text}"
    assert tiles["peak_reserved_change"].value.startswith("+")
    assert "recorded_step" not in tiles


def test_replays_that_do_other_work_make_the_step_s_tiles_say_so(sample: Comparison) -> None:
    tiles = build_summary_tiles(sample, replace(sample["graph"], replays_match=False))
    notes = {tile.metric: tile.note for tile in tiles}
    assert notes["speedup"] == "replays compute a different result"
    assert notes["launch_cpu_time"] != "replays compute a different result"


def test_runs_of_one_machine_have_one_line(sample: Comparison) -> None:
    (line,) = list_provenance(sample)
    environment = sample.runs[0].run.manifest.environment
    for fact in (environment.gpu_name, environment.driver, environment.torch, environment.cpu):
        assert fact is not None
        assert fact in line


def test_an_estimate_says_so() -> None:
    titles = {metric.estimate: format_metric_title(metric) for metric in METRICS.values()}
    assert titles[True].endswith(", est.")
    assert not titles[False].endswith(", est.")


def test_the_break_even_names_its_run(sample: Comparison) -> None:
    assert format_break_even_title(sample["graph"]) == "Break-even of graph"
