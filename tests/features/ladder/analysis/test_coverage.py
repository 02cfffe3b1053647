from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.loop.family_report import FamilyReport, LoopReport, build_loop_report
from graphviz_dash.analysis.loop.step_modes import StepMode
from graphviz_dash.features.ladder.analysis.coverage import (
    Coverage,
    build_coverage,
    select_family,
)
from graphviz_dash.features.ladder.analysis.ladder_advice import (
    build_ladder_basis,
    recommend_ladder,
)
from graphviz_dash.features.ladder.analysis.ladder_inputs import build_ladder_data
from graphviz_dash.features.ladder.analysis.ladder_problem import Budget, compute_ladder_cost
from graphviz_dash.features.ladder.narrative import (
    describe_coverage,
    describe_memory_method,
    list_coverage_options,
    list_size_options,
    summarize_loop,
)
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.loop import StepKind
from graphviz_dash.model.run import Run
from graphviz_dash.narrative.engine_steps import describe_eager_steps
from graphviz_dash.units import format_bytes, format_percent
from tests.captured_pools import Program, record
from tests.loops import EAGER_NS, make_server, replay_ns, simulate_engine
from tests.samples_once import SAMPLES

SIZES = (1, 2, 4, 8, 12, 16, 24, 32)


def cover(folder: Path, engine: str | None = None) -> tuple[LoopReport, Coverage | None]:
    run = load_run(folder, traces=False)
    assert run.loop is not None
    family = replace(run.loop.families[0], axes=("requests",))
    loop = replace(run.loop, engine=engine, families=(family,))
    report = build_loop_report(replace(run, loop=loop))
    assert isinstance(report, LoopReport)
    data = build_ladder_data(report, report.families[0])
    assert not isinstance(data, Missing)
    return report, build_coverage(data)


def test_larger_graphs_do_not_help_if_the_gpu_is_the_slower_part(tmp_path: Path) -> None:
    # The weights limit small steps, so that the times of present graphs do not rise with the size.
    def gpu_ns(size: int) -> int:
        return 10_000_000 + 400_000 * max(size - 32, 0)

    requests = [1 + 7 * number % 64 for number in range(400)]
    folder = make_server(tmp_path / "service", sizes=SIZES, requests=requests, gpu_ns=gpu_ns)
    run = load_run(folder, traces=False)
    assert run.loop is not None
    steps = run.loop.steps
    padded = [
        gpu_ns(padded or real or 1)
        for padded, real in zip(steps.padded_size, steps.real_size, strict=True)
    ]
    is_eager = [kind is StepKind.FALLBACK for kind in steps.kind]
    begin, end = simulate_engine([5_000_000 if eager else 500_000 for eager in is_eager], padded)
    steps = replace(steps, start_ns=tuple(begin.tolist()), end_ns=tuple(end.tolist()))
    report = build_loop_report(replace(run, loop=replace(run.loop, steps=steps, engine="vLLM 1")))
    assert isinstance(report, LoopReport)
    assert "GPU executes the previous one" in summarize_loop(report)
    (eager,) = (mode for mode in report.modes if mode.kind is StepKind.FALLBACK)
    assert get_median(eager) == pytest.approx(gpu_ns(48), rel=0.03)
    (sentence,) = describe_eager_steps(report)
    assert sentence.endswith(
        "exceeded the largest graph, 32. They wait for the GPU, so larger graphs save little."
    )
    data = build_ladder_data(report, report.families[0])
    assert not isinstance(data, Missing)
    coverage = build_coverage(data)
    assert coverage is not None
    assert coverage.new_sizes == (40, 48, 56, 64)
    # A graph saves nothing, and padding from 33 to 40 costs GPU time.
    reals = [real for real in requests if real > 32]
    loss_ns = sum(gpu_ns(-(-real // 8) * 8) - gpu_ns(real) for real in reals) / len(reals)
    assert coverage.gain_ns == pytest.approx(-loss_ns, rel=0.2)
    assert not coverage.is_worthwhile
    fallback_ns = report.families[0].fallback_ns
    assert fallback_ns is not None
    assert abs(fallback_ns) < 0.03 * len(reals) * gpu_ns(48)


def test_sglang_is_told_which_sizes_to_capture(tmp_path: Path) -> None:
    # 57 steps within the graphs and 116 above the largest, as in a recorded SGLang.
    requests = [1 + number % 32 for number in range(57)] + [33 + n % 16 for n in range(116)]
    folder = make_server(tmp_path / "service", sizes=SIZES, requests=requests)
    report, coverage = cover(folder, "SGLang 0.5.12")
    (sentence,) = describe_eager_steps(report)
    assert sentence.startswith("116 of 173 decode steps ran eagerly and took ")
    assert sentence.endswith("because 33 to 48 requests exceeded the largest graph, 32.")
    assert coverage is not None
    assert (coverage.new_sizes, coverage.requests_above, coverage.largest_graph) == (
        (40, 48),
        116,
        32,
    )
    # 58 requests are padded to each size; eager steps cost the time beyond a step's own.
    replays = (replay_ns(40) + replay_ns(48)) / 2
    assert coverage.gain_ns is not None
    assert abs(coverage.gain_ns - (EAGER_NS - replays)) < 0.02 * EAGER_NS
    assert coverage.memory_bytes > 0
    assert coverage.startup_ns > 40_000_000
    text = describe_coverage(report.families[0], coverage)
    assert text.startswith("Graphs for 40 and 48 requests would save about ")
    # Throughput counts all steps, those within the graphs too.
    steps_ns = coverage.all_steps_ns
    assert steps_ns is not None
    saved_ns = 116 * coverage.gain_ns
    assert coverage.throughput_gain == pytest.approx(saved_ns / (steps_ns - saved_ns))
    assert steps_ns == pytest.approx(
        sum(mode.steps * get_median(mode) for mode in report.modes), rel=0.02
    )
    assert f"throughput would rise by about {format_percent(coverage.throughput_gain)}" in text
    assert list_size_options(report, report.families[0], (*SIZES, *coverage.new_sizes)) == [
        "cuda_graph_bs=[1, 2, 4, 8, 12, 16, 24, 32, 40, 48], cuda_graph_max_bs=48",
        "--cuda-graph-bs 1 2 4 8 12 16 24 32 40 48 --cuda-graph-max-bs 48",
    ]


def get_median(mode: StepMode) -> float:
    if mode.kind is StepKind.CAPTURE or mode.step_time is None:
        return 0.0
    return mode.step_time.median


def test_vllm_has_one_list_of_sizes_for_all_families(tmp_path: Path) -> None:
    folder = make_server(tmp_path / "service", sizes=(8, 16), requests=(5, 20) * 40)
    report, _ = cover(folder, "vLLM 0.22.0")
    (family,) = report.families
    other = replace(family, members=tuple(replace(m, size=64, steps=1) for m in family.members))
    both = replace(report, families=(family, other))
    python, command = list_size_options(both, family, (8, 16, 20))
    assert python == 'compilation_config={"cudagraph_capture_sizes": [8, 16, 20, 64]}'
    assert command == "--cudagraph-capture-sizes 8 16 20 64"


def test_a_small_gain_is_no_reason_for_more_sizes(tmp_path: Path) -> None:
    requests = [1 + number % 32 for number in range(57)] + [33 + n % 16 for n in range(116)]
    folder = make_server(tmp_path / "service", sizes=SIZES, requests=requests)
    report, coverage = cover(folder, "SGLang 0.5.12")
    family = report.families[0]
    assert coverage is not None
    assert coverage.eager_step_ns is not None
    assert coverage.is_worthwhile
    assert list_coverage_options(report, family, coverage)[-1].endswith(
        " 40 48 --cuda-graph-max-bs 48"
    )
    # A gain of 0.9% and of 1.1% of a step, and a loss.
    total_ns = (coverage.step_ns or 0.0) * coverage.requests + coverage.current_use.total_ns
    for share, is_better in ((0.009, False), (0.011, True), (-0.01, False)):
        gain_ns = share * total_ns / coverage.requests_above
        changed = replace(coverage, graph_step_ns=coverage.eager_step_ns - gain_ns)
        assert changed.gain_share == pytest.approx(share)
        assert (changed.is_worthwhile, changed.is_insignificant) == (is_better, not is_better)
        assert bool(list_coverage_options(report, family, changed)) == is_better
        text = describe_coverage(family, changed)
        assert text.startswith("No additional size is better: ") == (not is_better)
        assert ("save about 0.9% of the family's time and cost" in text) == (share == 0.009)
        assert ("not be faster than eager steps and cost" in text) == (share < 0)
    # Without a timed eager step, a reader may try the sizes.
    unknown = replace(coverage, eager_step_ns=None)
    assert (unknown.is_worthwhile, unknown.is_insignificant) == (False, False)
    assert list_coverage_options(report, family, unknown)


def test_requests_within_the_graphs_need_no_further_sizes(tmp_path: Path) -> None:
    folder = make_server(tmp_path / "service", sizes=(8, 16), requests=(8, 16) * 40)
    report, coverage = cover(folder)
    assert coverage is None
    assert describe_eager_steps(report) == ()
    assert list_size_options(report, report.families[0], (8, 16)) == []


def test_a_large_gap_gets_at_most_four_sizes(tmp_path: Path) -> None:
    folder = make_server(tmp_path / "service", sizes=(32, 64), requests=(64, 30, 1000) * 30)
    _, coverage = cover(folder)
    assert coverage is not None
    assert coverage.new_sizes == (288, 544, 768, 1024)


def test_the_family_with_most_to_gain_comes_first() -> None:
    run = load_run(SAMPLES / "recorded-vllm" / "default-sizes", traces=False)
    report = build_loop_report(run)
    assert isinstance(report, LoopReport)
    # Most steps are decode steps, all within their graphs.
    assert report.families[0].family.name == "full decode"
    assert select_family(report).family.name == "piecewise"


def test_memory_of_an_engine_is_the_measured_one() -> None:
    # vLLM's pieces: 304 to 1,024 tokens grew the pool by 44.0 MiB.
    run = load_run(SAMPLES / "recorded-vllm" / "default-sizes", traces=False)
    family, coverage = cover_pieces(run)
    assert coverage.memory_limit is None
    executables = 4 * 81 * family.node_bytes.bytes
    assert coverage.memory_bytes - executables == pytest.approx(44 * 2**20)
    assert " and cost about " in describe_coverage(family, coverage)


def test_memory_of_larger_graphs_grows_with_their_size() -> None:
    # Without the allocations of captures, as in recordings of earlier versions.
    run = load_run(SAMPLES / "recorded-vllm" / "default-sizes", traces=False)
    assert run.ledger is not None
    starts = tuple(replace(start, pool_operations=None) for start in run.ledger.graphs)
    run = replace(run, ledger=replace(run.ledger, graphs=starts))
    family, coverage = cover_pieces(run)
    executables = 4 * 81 * family.node_bytes.bytes
    assert 44.0 <= (coverage.memory_bytes - executables) / 2**20 <= 1.1 * 44.0
    assert coverage.memory_limit is not None
    assert coverage.memory_limit.reason == "the allocations of its captures were not recorded"
    assert " and cost up to " in describe_coverage(family, coverage)


def cover_pieces(run: Run) -> tuple[FamilyReport, Coverage]:
    """Cover the requests above the largest piece of the recorded vLLM."""
    report = build_loop_report(run)
    assert isinstance(report, LoopReport)
    family = select_family(report)
    assert family.node_bytes.graphs == 99
    data = build_ladder_data(report, family)
    assert not isinstance(data, Missing)
    coverage = build_coverage(data)
    assert coverage is not None
    assert coverage.new_sizes == (304, 544, 784, 1024)
    return family, coverage


@pytest.mark.parametrize("unit", [1_024, 2_048])
def test_memory_is_predicted_from_recorded_allocations(tmp_path: Path, unit: int) -> None:
    requests = [1 + number % 32 for number in range(57)] + [33 + n % 16 for n in range(116)]
    server = make_server(tmp_path / "service", sizes=SIZES, requests=requests)
    before = Program(unit).capture(SIZES[::-1])
    after = Program(unit).capture((48, 40, *SIZES[::-1]))
    report = build_loop_report(record(server, before))
    assert isinstance(report, LoopReport)
    family = report.families[0]
    data = build_ladder_data(report, family)
    assert not isinstance(data, Missing)
    coverage = build_coverage(data)
    assert coverage is not None
    growth = after.pool.reserved_bytes - before.pool.reserved_bytes
    # An allocation from 10 MiB on has its own segment, a smaller one has 20 MiB.
    assert (growth > 0) == (unit > 1_024)
    assert coverage.memory_bytes == growth + 2 * 6 * family.node_bytes.bytes
    assert coverage.memory_limit is None
    text = describe_coverage(family, coverage)
    memory = f"about {format_bytes(coverage.memory_bytes)}" if growth > 0 else "no memory"
    assert f" and cost {memory} and about " in text
    assert "simulation" in describe_memory_method(family.node_bytes, family.pool)
    # The same for sizes without a further graph, and for all sets of sizes.
    basis = build_ladder_basis(data)
    assert coverage.current_use.memory_bytes == compute_memory(unit, SIZES, family)
    limits = {compute_memory(unit, (size,), family) for size in SIZES}
    for budget in (Budget(graphs=2), *(Budget(memory_bytes=limit) for limit in limits)):
        advice = recommend_ladder(basis, budget)
        assert not isinstance(advice, Missing)
        uses = {point.sizes: point.use for point in (advice.smallest, *advice.front)}
        uses |= {advice.ladder.sizes: advice.use, SIZES: advice.current_use}
        for sizes, use in uses.items():
            assert use.memory_bytes == compute_memory(unit, sizes, family)
        if budget.memory_bytes is not None:
            assert advice.use.memory_bytes <= budget.memory_bytes
            assert advice.smallest.use.memory_bytes <= budget.memory_bytes
            assert advice.ladder.sizes
            # No smaller set of up to two sizes is as fast as the fastest within the limit.
            for count in range(min(len(advice.smallest.sizes), 3)):
                for sizes in combinations(basis.problem.sizes.tolist(), count):
                    cost = compute_ladder_cost(basis.problem, sizes)
                    if cost.total_ns <= advice.use.total_ns:
                        assert (basis.memory.predict(sizes) or 0) > budget.memory_bytes


def compute_memory(unit: int, sizes: tuple[int, ...], family: FamilyReport) -> int:
    """Memory of a program that captures these sizes."""
    pool_bytes = Program(unit).capture(sizes[::-1]).pool.reserved_bytes
    return pool_bytes + len(sizes) * 6 * round(family.node_bytes.bytes)
