from __future__ import annotations

import gzip
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.loop.family_report import LoopReport, build_loop_report
from graphviz_dash.analysis.metrics.loop_columns import FALLBACK
from graphviz_dash.features.ladder.analysis.coverage import Coverage, build_coverage
from graphviz_dash.features.ladder.analysis.ladder_inputs import build_ladder_data
from graphviz_dash.features.ladder.narrative import describe_coverage
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.loop import ProgramLoop
from graphviz_dash.units import format_percent
from tests.loops import EAGER_NS, make_server, replay_ns
from tests.samples_once import SAMPLES

H100_LOOP: Final = Path(__file__).parents[3] / "cases" / "sglang-loop-h100.json.gz"
"""Steps of SGLang on an H100, without the sizes that the ladder advises."""

BASE_NS = 800_000
REQUEST_NS = 20_000


def make_report(
    folder: Path, slow_steps: int = 0, slow_eager: float = 1.0, eager: int = 80
) -> LoopReport:
    """A decode server whose time outside graphs grows with its requests; its last steps are 1.5
    times as slow, and the last quarter of its eager steps ``slow_eager`` times."""
    requests = [1 + number % 32 for number in range(640)] + [40, 48] * (eager // 2)
    server = make_server(folder, sizes=(1, 2, 4, 8, 16, 24, 32), requests=requests)
    report = build_loop_report(load_run(server, traces=False))
    assert isinstance(report, LoopReport)
    columns = report.columns
    is_eager = columns.kind == FALLBACK
    outside = (BASE_NS + REQUEST_NS * columns.real).astype(np.float64)
    if slow_steps:
        outside[np.flatnonzero(columns.is_replay)[-slow_steps:]] *= 1.5
    work = np.where(is_eager, EAGER_NS, replay_ns(1) + 10_000 * (columns.padded - 1))
    period_ns = outside + work
    period_ns[np.flatnonzero(is_eager)[-eager // 4 :]] *= slow_eager
    columns = replace(columns, requests=columns.real, period_ns=period_ns.astype(np.int64))
    (family,) = report.families
    return replace(report, columns=columns, families=(replace(family, step_ns=float(BASE_NS)),))


def build(report: LoopReport, family: int = 0) -> Coverage:
    data = build_ladder_data(report, report.families[family])
    assert not isinstance(data, Missing)
    coverage = build_coverage(data)
    assert coverage is not None
    return coverage


def test_time_outside_graphs_is_extrapolated_by_requests(tmp_path: Path) -> None:
    coverage = build(make_report(tmp_path / "service"))
    assert coverage.new_sizes == (40, 48)
    outside = BASE_NS + REQUEST_NS * 44
    assert coverage.graph_step_ns == pytest.approx(replay_ns(44) + outside, rel=0.01)
    assert coverage.eager_step_ns == pytest.approx(EAGER_NS + outside, rel=0.01)
    spread = coverage.graph_step_spread
    assert spread is not None
    assert spread.low == pytest.approx(coverage.graph_step_ns, rel=0.01)
    assert spread.high == pytest.approx(coverage.graph_step_ns, rel=0.01)


def test_the_range_contains_slower_times_of_the_machine(tmp_path: Path) -> None:
    report = make_report(tmp_path / "service", slow_steps=128)
    coverage = build(report)
    spread = coverage.graph_step_spread
    assert spread is not None
    assert spread.high is not None
    assert coverage.graph_step_ns is not None
    slow_ns = replay_ns(44) + 1.5 * (BASE_NS + REQUEST_NS * 44)
    assert spread.low <= coverage.graph_step_ns < spread.high
    assert spread.high == pytest.approx(slow_ns, rel=0.1)
    text = describe_coverage(report.families[0], coverage)
    assert " instead of " in text
    assert text.endswith("Ranges are the variation within the recording: measure the new sizes.")


def test_the_range_of_the_throughput_has_the_variation_of_both_steps(tmp_path: Path) -> None:
    report = make_report(tmp_path / "service", slow_steps=128, slow_eager=1.25, eager=320)
    coverage = build(report)
    eager, graph = coverage.eager_step_spread, coverage.graph_step_spread
    gain, spread = coverage.throughput_gain, coverage.throughput_spread
    total_ns, count = coverage.all_steps_ns, coverage.requests_above
    assert eager is not None
    assert graph is not None
    assert spread is not None
    assert gain is not None
    assert total_ns is not None
    assert coverage.eager_step_ns is not None
    assert coverage.graph_step_ns is not None
    assert eager.high is not None
    assert eager.low == pytest.approx(coverage.eager_step_ns, rel=0.02)
    assert eager.high == pytest.approx(1.25 * coverage.eager_step_ns, rel=0.05)
    # Only eager steps are slower, and only the graphs' range has slower steps.
    slow_ns = total_ns + (eager.high - coverage.eager_step_ns) * count
    high = slow_ns / (slow_ns - (eager.high - coverage.graph_step_ns) * count) - 1
    assert graph.high is not None
    low = total_ns / (total_ns - (coverage.eager_step_ns - graph.high) * count) - 1
    assert spread.high == pytest.approx(high, abs=0.01)
    assert spread.low == pytest.approx(low, abs=0.01)
    text = describe_coverage(report.families[0], coverage)
    limits = f"({format_percent(spread.low)} to {format_percent(spread.high)})"
    assert f"throughput would rise by about {format_percent(gain)} {limits}." in text


def test_a_range_with_a_loss_is_no_gain(tmp_path: Path) -> None:
    report = make_report(tmp_path / "service", slow_steps=128, slow_eager=0.2, eager=320)
    coverage = build(report)
    spread = coverage.throughput_spread
    assert spread is not None
    assert spread.low < 0
    assert coverage.is_insignificant
    assert not coverage.is_worthwhile
    text = describe_coverage(report.families[0], coverage)
    limits = f"{format_percent(spread.low)} to {format_percent(spread.high)}"
    assert text.startswith(
        "No additional size is significantly better: graphs for sizes 40 and 48 would change "
        f"throughput by {limits} (variation within the recording) and cost "
    )


def test_few_steps_have_no_range(tmp_path: Path) -> None:
    server = make_server(tmp_path / "service", sizes=(8, 16), requests=(5, 12, 20) * 40)
    report = build_loop_report(load_run(server, traces=False))
    assert isinstance(report, LoopReport)
    coverage = build(report)
    assert coverage.graph_step_ns is not None
    assert coverage.graph_step_spread is None
    assert describe_coverage(report.families[0], coverage).endswith(
        " This is extrapolated: measure it."
    )


@pytest.mark.parametrize(
    ("family", "measured_ns"),
    [
        # Median steps of the same traffic with these sizes captured, by another recording.
        ("decode", 2_090_000),
        ("prefill", 6_450_000),
    ],
)
def test_the_range_contains_the_measured_steps_of_an_engine(family: str, measured_ns: int) -> None:
    # Both recordings are from one H100. The sample, from an H200, has graphs of the same names.
    run = load_run(SAMPLES / "recorded-sglang" / "default-sizes", traces=False)
    loop = msgspec.json.decode(gzip.decompress(H100_LOOP.read_bytes()), type=ProgramLoop)
    report = build_loop_report(replace(run, loop=loop))
    assert isinstance(report, LoopReport)
    names = [each.family.name for each in report.families]
    coverage = build(report, names.index(family))
    spread = coverage.graph_step_spread
    assert spread is not None
    assert spread.high is not None
    assert coverage.eager_step_ns is not None
    assert spread.low <= measured_ns <= spread.high < 2 * measured_ns
