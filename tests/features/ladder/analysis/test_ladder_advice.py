from __future__ import annotations

import random
from collections.abc import Callable
from operator import le
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.loop.family_report import (
    FamilyReport,
    LoopReport,
    build_loop_report,
    has_many_graphs,
)
from graphviz_dash.analysis.loop.keys import format_key
from graphviz_dash.analysis.loop.size_times import ReplaySamples, fit_size_times
from graphviz_dash.features.ladder.analysis.ladder_advice import (
    LadderAdvice,
    build_ladder_basis,
    recommend_ladder,
)
from graphviz_dash.features.ladder.analysis.ladder_data import (
    LadderData,
    SizeCosts,
    build_problem,
    collect_sizes,
    estimate_times,
)
from graphviz_dash.features.ladder.analysis.ladder_inputs import build_ladder_data
from graphviz_dash.features.ladder.analysis.ladder_problem import (
    Budget,
    LadderCost,
    compute_ladder_cost,
)
from graphviz_dash.features.ladder.charts.families import draw_family
from graphviz_dash.features.ladder.narrative import (
    describe_advice,
    describe_losses,
    describe_memory_method,
)
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.loop import KeyMethod
from tests.loops import EAGER_NS, make_segmented, make_server, replay_ns, traffic
from tests.samples import SAMPLES


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> LoopReport:
    folder = tmp_path_factory.mktemp("service")
    return reported(make_server(folder, requests=[*traffic(1_000, 32), *[40] * 10]))


def reported(path: Path) -> LoopReport:
    result = build_loop_report(load_run(path))
    assert not isinstance(result, Missing)
    return result


def data_of(report: LoopReport, requests: list[int] | None = None) -> LadderData:
    data = build_ladder_data(
        report, report.families[0], None if requests is None else np.array(requests)
    )
    assert not isinstance(data, Missing)
    return data


def advice_of(data: LadderData, budget: Budget | None = None) -> LadderAdvice:
    advice = recommend_ladder(build_ladder_basis(data), budget or Budget())
    assert not isinstance(advice, Missing)
    return advice


def family_of(report: LoopReport) -> FamilyReport:
    (family,) = report.families
    return family


class TestReport:
    def test_members_stand_by_size(self, report: LoopReport) -> None:
        family = family_of(report)
        assert [member.size for member in family.members] == [1, 2, 4, 8, 16, 32]
        for member in family.members:
            assert member.gpu is not None
            # The samples lie up to 2 us above.
            assert member.gpu.median - replay_ns(member.size or 0) in (0, 500, 1_000)
        assert (family.replays, family.fallbacks, family.captures) == (1_000, 10, 6)
        assert format_key(family.family, family.members[-1].member) == "batch 32"

    def test_time_between_replays(self, report: LoopReport) -> None:
        # 40 us on the host and 10 us behind the replay; samples lie 1 us above the replays.
        assert family_of(report).step_ns == pytest.approx(50_000, abs=1_000)

    def test_losses_by_size(self, report: LoopReport) -> None:
        losses = family_of(report).losses
        assert not isinstance(losses, Missing)
        by_size = {loss.size: loss for loss in losses}
        exact = by_size[32]
        assert exact.padding_ns == 0
        assert by_size[17].padding_ns / by_size[17].requests == pytest.approx(150_000, rel=0.02)
        above = by_size[40]
        assert (above.requests, above.fallbacks) == (10, 10)
        # Over a graph of that size; 50 us pass before the next step either way.
        assert above.fallback_ns / 10 == pytest.approx(EAGER_NS - replay_ns(40), rel=0.01)

    def test_one_time_work_is_no_step_cost(self, tmp_path: Path) -> None:
        """Library setup at the first use of a shape and the start of a profiler are no cost of a
        step or of a request without a graph.
        """
        path = make_server(
            tmp_path,
            requests=[40, 40, *traffic(300, 32), *[40] * 10],
            first_ns=30_000_000,
            profiler=(5, 3_000_000_000),
        )
        report = reported(path)
        family = family_of(report)
        assert family.step_ns == pytest.approx(50_000, abs=1_000)
        assert data_of(report).step_ns == pytest.approx(50_000, rel=0.15)
        assert not isinstance(family.losses, Missing)
        above = family.losses[-1]
        assert above.fallback_ns / above.requests == pytest.approx(
            EAGER_NS - replay_ns(40), rel=0.01
        )

    def test_the_loss_is_unknown_if_no_fallback_step_was_timed(self, tmp_path: Path) -> None:
        """The only one is the last step of its thread, which nothing ends."""
        family = family_of(reported(make_server(tmp_path, requests=[*traffic(300, 32), 40])))
        assert not isinstance(family.losses, Missing)
        assert [loss.fallback_ns for loss in family.losses if loss.fallbacks] == [None]
        assert family.fallback_ns is None
        assert (
            "the cost of 1 fallback step is unknown because no step of a known size was timed"
            in describe_losses(family)
        )
        assert draw_family(family, [], "light") is not None

    def test_graphs_of_one_size_have_one_key(self) -> None:
        """Each token of a text has a graph; the prompt is longer."""
        family = family_of(reported(SAMPLES / "compile-generate" / "fixed-1"))
        assert (len(family.graphs), family.key_count) == (10, 2)

    def test_segments_are_one_member(self, tmp_path: Path) -> None:
        report = reported(make_segmented(tmp_path, segments=4, repeats=2))
        family = family_of(report)
        (member,) = family.members
        assert family.is_segmented
        assert not family.has_sizes
        assert member.gpu is not None
        assert member.gpu.median == 8 * 50_000
        assert format_key(family.family, member.member) == "graph-0 and 3 more"

    def test_unknown_keys(self, tmp_path: Path) -> None:
        path = make_server(tmp_path, method=None)
        run = load_run(path)
        assert has_many_graphs(run.loop)
        report = reported(path)
        missing = build_ladder_data(report, family_of(report))
        assert isinstance(missing, Missing)
        assert missing.reason == "the sizes of the family's graphs are unknown"

    def test_keys_of_several_numbers(self) -> None:
        samples = tuple(
            ReplaySamples(size, (rest,), np.array([10.0 * size + rest] * count), steps)
            for size, rest, count, steps in (
                (1, 0, 3, 4),
                (2, 0, 1, 6),
                (1, 100, 2, 7),
                (4, 100, 1, 3),
            )
        )
        sizes, times = fit_size_times(samples, np.array([m.replay_ns[0] for m in samples]))
        # At the average of the other number over the steps, however many were sampled: 50.
        assert sizes.tolist() == [1, 2, 4]
        assert times == pytest.approx([60, 70, 90])


class TestAdvice:
    def test_better_sizes(self, report: LoopReport) -> None:
        advice = advice_of(data_of(report))
        assert advice.is_better
        assert len(advice.ladder.sizes) == 6
        assert advice.ladder.sizes[-1] == 32
        assert set(advice.interpolated) == set(advice.ladder.sizes) - set(advice.current_sizes)
        assert advice.gain_interval.low <= advice.gain_ns <= (advice.gain_interval.high or 0)
        # What is saved is padding alone.
        saved = advice.current_use.padding_ns - advice.use.padding_ns
        assert advice.gain_ns * advice.requests == pytest.approx(saved)

    def test_the_smallest_set_within_noise_is_recommended(self) -> None:
        """Times of 16 sizes differ by noise alone below 24, so two graphs suffice."""
        draw = np.random.default_rng(5)
        sizes = tuple(range(2, 34, 2))
        data = LadderData(
            captured=tuple(SizeCosts(size, 1 << 20, 0, 2_000_000) for size in sizes),
            samples=tuple(
                ReplaySamples(s, (), draw.normal(1e6 if s <= 24 else 2e6, 2e3, 20), 20)
                for s in sizes
            ),
            requests=draw.choice([*range(1, 25), 32], 900),
            fallback_sizes=np.zeros(0, dtype=np.int64),
            fallback_ns=np.zeros(0),
            step_ns=None,
        )
        advice = advice_of(data)
        assert advice.smallest.sizes == (24, 32)
        assert advice.smallest.untimed_count == 0
        assert len(advice.ladder.sizes) > 2
        assert describe_advice(advice) == (
            "16 sizes → 2 sizes without measurable loss: 14.0 MiB and 28.0 ms of startup less."
        )

    def test_a_set_that_loses_time_is_not_recommended(self) -> None:
        sizes = (8, 16, 24, 32)
        data = LadderData(
            captured=tuple(SizeCosts(size, 1 << 20, 0, 2_000_000) for size in sizes),
            samples=tuple(ReplaySamples(s, (), np.full(20, s * 1e5), 20) for s in sizes),
            requests=np.repeat(np.array(sizes), 100),
            fallback_sizes=np.zeros(0, dtype=np.int64),
            fallback_ns=np.zeros(0),
            step_ns=None,
        )
        advice = advice_of(data)
        assert advice.smallest.sizes == sizes
        assert "No set of sizes is better: the current sizes 8, 16, 24, 32" in describe_advice(
            advice
        )

    def test_the_front_has_no_dominated_point(self, report: LoopReport) -> None:
        advice = advice_of(data_of(report))
        costs = [(p.use.total_ns, p.use.memory_bytes, p.use.startup_ns) for p in advice.front]
        assert len(costs) > 2
        for cost in costs:
            assert not any(other != cost and all(map(le, other, cost)) for other in costs)

    def test_estimates_are_inside_their_intervals(self) -> None:
        loop = reported(SAMPLES / "recorded-server" / "vllm-sizes")
        advice = advice_of(data_of(loop))
        for gain, spread in (
            (advice.gain_ns, advice.gain_interval),
            (advice.smallest_gain_ns, advice.smallest_interval),
        ):
            assert spread.high is not None
            assert spread.low < gain < spread.high
        assert advice.smallest.sizes == (48, 200, 256)

    def test_the_prediction_is_what_the_ladder_then_takes(
        self, report: LoopReport, tmp_path: Path
    ) -> None:
        data = data_of(report)
        advice = advice_of(data)
        rerun = data_of(
            reported(
                make_server(tmp_path, sizes=advice.ladder.sizes, requests=data.requests.tolist())
            )
        )
        after = advice_of(rerun)
        predicted, measured = (
            advice.compute_throughput(advice.use),
            after.compute_throughput(after.current_use),
        )
        assert predicted == pytest.approx(measured, rel=0.005)
        assert not after.is_better

    def test_requests_above_the_ceiling_are_counted_and_costed(self, report: LoopReport) -> None:
        ceiling = advice_of(data_of(report)).ceiling
        assert (ceiling.size, ceiling.largest_request, ceiling.requests_above) == (32, 40, 10)
        assert ceiling.fallback_ns == pytest.approx(EAGER_NS, rel=0.001)
        assert ceiling.extended_ns == pytest.approx(replay_ns(40), rel=0.01)

    def test_other_traffic(self, report: LoopReport) -> None:
        advice = advice_of(data_of(report, [8] * 50 + [16] * 50))
        assert advice.ladder.sizes == (8, 16)
        assert not advice.is_better
        assert advice.gain_ns == 0

    def test_memory_holds_few(self, report: LoopReport) -> None:
        data = data_of(report)
        free = advice_of(data, Budget())
        tight = advice_of(data, Budget(memory_bytes=round(free.use.memory_bytes) - 1))
        assert tight.use.memory_bytes < free.use.memory_bytes
        assert tight.gain_ns <= free.gain_ns
        hasty = advice_of(data, Budget(startup_ns=45_000_000))
        assert len(hasty.ladder.sizes) == 2

    def test_noise_alone_is_no_gain(self) -> None:
        draw = np.random.default_rng(3)
        sizes = (8, 16, 24, 32)
        data = LadderData(
            captured=tuple(SizeCosts(size, 0, 0, 0) for size in sizes),
            samples=tuple(ReplaySamples(s, (), draw.normal(1e6, 5e4, 20), 20) for s in sizes),
            requests=draw.integers(1, 33, 500),
            fallback_sizes=np.zeros(0, dtype=np.int64),
            fallback_ns=np.zeros(0),
            step_ns=None,
        )
        advice = advice_of(data)
        assert advice.gain_ns > 0
        assert not advice.is_better

    def test_nothing_to_fall_back_to(self, report: LoopReport) -> None:
        data = replace(
            data_of(report), fallback_sizes=np.zeros(0, dtype=np.int64), fallback_ns=np.zeros(0)
        )
        missing = recommend_ladder(build_ladder_basis(data), Budget())
        assert isinstance(missing, Missing)
        assert "covers the largest request" in missing.reason

    def test_keys_by_method(self, tmp_path: Path) -> None:
        report = reported(make_server(tmp_path, method=KeyMethod.GRIDS))
        family = family_of(report)
        assert format_key(family.family, family.members[0].member) == "batch 1 (in grids)"


def remembered(path: Path, **changed: Callable[[int], int]) -> LoopReport:
    """The report of a server whose graphs' costs are, by their place in the captures, others."""
    run = load_run(path)
    assert run.loop is not None
    graphs = tuple(
        replace(cost, **{name: of_place(place) for name, of_place in changed.items()})
        for place, cost in enumerate(run.loop.graphs)
    )
    result = build_loop_report(replace(run, loop=replace(run.loop, graphs=graphs)))
    assert not isinstance(result, Missing)
    return result


def ladder_use(data: LadderData, sizes: tuple[int, ...]) -> LadderCost:
    requests, counts = np.unique(data.requests, return_counts=True)
    every = collect_sizes(data, data.requests)
    return compute_ladder_cost(
        build_problem(data, estimate_times(data), every, requests, counts.astype(float)), sizes
    )


class TestMemory:
    def test_executables_of_many_nodes_tell_what_a_node_takes(self, tmp_path: Path) -> None:
        path = make_server(tmp_path, nodes=1_600)
        usual = family_of(remembered(path, driver_bytes=lambda _: 1 << 20))
        assert (usual.node_bytes.bytes, usual.node_bytes.graphs) == (3_072, 0)
        # In chunks of 2 MiB: of 6.25 MiB each, four times 6 and twice 8.
        told = family_of(
            remembered(path, driver_bytes=lambda place: (8 if place % 3 == 2 else 6) << 20)
        )
        assert told.node_bytes.graphs == 6
        assert told.node_bytes.bytes * 1_600 == pytest.approx(40 / 6 * 2**20)
        # Another process took memory in the meantime.
        shared = family_of(remembered(path, driver_bytes=lambda _: 48 << 20))
        assert shared.node_bytes == usual.node_bytes
        assert "measured on 6 graphs" in describe_memory_method(told.node_bytes, told.pool)
        assert "measured on driver 580" in describe_memory_method(usual.node_bytes, usual.pool)

    def test_workspaces_of_libraries_are_no_sizes_own(self, tmp_path: Path) -> None:
        """A library takes one in the first capture, and another in the second, on another stream;
        any ladder needs both."""
        workspace = 32 << 20
        path = make_server(tmp_path, nodes=5)
        report = remembered(
            path,
            exclusive_bytes=lambda place: workspace + 4_096 if place < 2 else 4_096,
            pool_growth_bytes=lambda place: workspace + (4 << 20) if place < 2 else 0,
        )
        data = data_of(report)
        assert sum(costs.exclusive_bytes for costs in data.captured) < 1 << 20
        assert {costs.pool_bytes >= 2 * workspace for costs in data.captured} == {True}
        whole = 2 * workspace + (8 << 20) + 6 * 5 * 3_072
        assert ladder_use(data, data.current_sizes).memory_bytes == pytest.approx(whole, abs=1)

    @pytest.mark.parametrize("seed", range(20))
    def test_fewer_sizes_never_need_more(self, seed: int, tmp_path: Path) -> None:
        draw = random.Random(seed)
        report = remembered(
            make_server(tmp_path),
            exclusive_bytes=lambda _: draw.choice((0, 512, 1 << 20, 33 << 20)),
            pool_growth_bytes=lambda _: draw.choice((0, 2 << 20, 20 << 20, 64 << 20)),
        )
        data = data_of(report)
        for _ in range(20):
            more = sorted(draw.sample(data.current_sizes, draw.randint(1, len(data.current_sizes))))
            fewer = sorted(draw.sample(more, draw.randint(1, len(more))))
            uses = [ladder_use(data, tuple(sizes)) for sizes in (fewer, more)]
            assert uses[0].memory_bytes <= uses[1].memory_bytes
