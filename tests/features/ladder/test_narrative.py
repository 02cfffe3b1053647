from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.comparison.recorded_figures import compute_loop_metrics
from graphviz_dash.analysis.loop.family_report import FamilyReport, LoopReport, build_loop_report
from graphviz_dash.analysis.metrics.recorded_step import StepStatistic
from graphviz_dash.features.ladder.analysis.ladder_advice import (
    build_ladder_basis,
    recommend_ladder,
)
from graphviz_dash.features.ladder.analysis.ladder_inputs import build_ladder_data
from graphviz_dash.features.ladder.analysis.ladder_problem import Budget
from graphviz_dash.features.ladder.narrative import (
    build_family_tiles,
    describe_faster_sizes,
    describe_losses,
    describe_segments,
    list_mode_columns,
    summarize_loop,
)
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.loop import StepKind
from graphviz_dash.units import format_bytes
from tests.loops import make_server
from tests.samples import compared_sample

SAMPLES = Path(__file__).parents[3] / "sample_traces"


def the_report(sample: str) -> LoopReport:
    report = build_loop_report(load_experiment(SAMPLES / sample, traces=False).runs[0])
    assert not isinstance(report, Missing)
    return report


def the_family(sample: str) -> FamilyReport:
    return the_report(sample).families[0]


def test_padding_to_the_smallest_timed_size_is_not_known() -> None:
    family = the_family("recorded-batching")
    assert isinstance(family.losses, Missing)
    assert describe_losses(family).startswith(
        "Padding cost is not available: no size below 96 was timed"
    )


def test_a_loss_or_gain_within_what_replays_vary_is_neither_everywhere() -> None:
    family = the_family("recorded-server")
    told = describe_losses(family)
    within = "-94.8 ns per step (95%: -1.22 µs to 1.08 µs)"
    assert f"Padding over 700 steps made no significant difference: {within}" in told
    assert "60 fallback steps took" in told
    assert ("Padding cost", "not significant", within) in build_family_tiles(family)
    (run,) = load_experiment(SAMPLES / "recorded-server", traces=False).runs
    figure = next(each for each in compute_loop_metrics(run) if each.metric.id == "loop_padding")
    assert not isinstance(family.padding, Missing)
    assert (figure.value, figure.spread) == (family.padding.step_ns, family.padding.spread)


def test_keys_are_counted_where_they_are_known() -> None:
    assert build_family_tiles(the_family("recorded-server"))[0] == (
        "Graphs",
        "175",
        "35 keys, decode",
    )
    label, count, note = build_family_tiles(the_family("recorded-megatron"))[0]
    assert (label, count) in (("Graphs", "16"), ("Graphs", "1"))
    assert "key" not in note


def test_a_step_of_segments_says_which_and_what_was_timed() -> None:
    told = describe_segments(the_family("recorded-server"))
    assert told.startswith("The most frequent step, batch 56, replays 5 graphs; the replays take ")
    assert "217 µs between their CUDA events, 56.1% of the 386 µs until the next step" in told


def test_a_larger_size_that_replays_faster_is_reported(tmp_path: Path) -> None:
    times = {2: 500_000, 4: 300_000, 8: 400_000}
    make_server(tmp_path, sizes=(2, 4, 8), requests=[3, 4, 2, 8] * 60, gpu_ns=times.__getitem__)
    report = build_loop_report(load_experiment(tmp_path).runs[0])
    assert not isinstance(report, Missing)
    (family,) = report.families
    told = describe_losses(family)
    begin = "Padding saved GPU time over 240 steps because replays of the padded sizes are faster: "
    assert told.startswith(f"{begin}-24.9 µs per step (95%: -2")
    # Halfway between 500 and 300 us, and samples lie up to 2 us above these.
    faster = "a step of 3 takes 99.8 µs less in the graph for 4 than in a graph for 3."
    assert told.endswith(f"Larger sizes replay faster here: {faster}")
    data = build_ladder_data(report, family)
    assert not isinstance(data, Missing)
    advice = recommend_ladder(build_ladder_basis(data), Budget())
    assert not isinstance(advice, Missing)
    assert advice.current_use.padding_ns / advice.requests == pytest.approx(-24_900, rel=0.01)
    # Requests of 2 go to the graph of 4, which is faster for them too.
    assert advice.ladder.sizes == (4, 8)


def test_times_that_rise_with_the_size_are_no_news(tmp_path: Path) -> None:
    make_server(tmp_path)
    report = build_loop_report(load_experiment(tmp_path).runs[0])
    assert not isinstance(report, Missing)
    assert describe_faster_sizes(report.families[0]) == ""


def test_sizes_below_the_smallest_timed_one_are_not_advised_away() -> None:
    report = the_report("recorded-batching")
    data = build_ladder_data(report, report.families[0])
    assert isinstance(data, Missing)
    assert "no replay of a size below 96 was timed" in data.reason


def test_intervals_of_a_mode_have_another_title_than_a_program_s_median_step() -> None:
    """Intervals include steps before the last capture: 189 us in this sample, and 183 us a step."""
    (run,) = (run for run in compared_sample("compile-generate").runs if run.run.name == "fixed-2")
    report = build_loop_report(run.run)
    assert isinstance(report, LoopReport)
    (mode,) = (mode for mode in report.modes if mode.kind is StepKind.REPLAY)
    assert mode.step_time is not None
    assert mode.step_time.median > (run["recorded_step"].value or 0) + 1_000
    titles = {column.title for column in list_mode_columns(report)}
    assert "Median interval" in titles
    assert not titles & {f"{statistic} step".capitalize() for statistic in StepStatistic}


def test_timed_larger_sizes_give_advice() -> None:
    report = the_report("recorded-server")
    assert not isinstance(build_ladder_data(report, report.families[0]), Missing)


@pytest.mark.parametrize(
    ("sample", "subject"), [("vllm", "its captures"), ("sglang", "its decode")]
)
def test_the_memory_that_an_engine_measured_is_next_to_ours(sample: str, subject: str) -> None:
    report = replace(the_report(f"recorded-{sample}"), engine_capture_bytes=None)
    assert "measured" not in summarize_loop(report)
    measured = summarize_loop(replace(report, engine_capture_bytes=200 << 20))
    grown = sum(
        member.pool_growth_bytes or 0
        for family in report.families
        for member in family.members
        if sample == "vllm" or family.family.name == "decode"
    )
    assert f"measured 200 MiB for {subject}" in measured
    assert f"pools grew by {format_bytes(grown)}" in measured
    # The ledger has the growth of the driver's chunks at instantiation instead.
    assert ", estimated from their nodes;" in measured
