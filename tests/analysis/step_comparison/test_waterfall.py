from __future__ import annotations

import pytest

from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.analysis.step_comparison.typical_step import build_typical_step
from graphviz_dash.analysis.step_comparison.waterfall import (
    STEP_LEVEL,
    Cause,
    CauseTimes,
    Waterfall,
    build_waterfall,
)
from graphviz_dash.analysis.step_comparison.work_pairs import PairKind
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.run import Run
from tests.analysis.frames import Frames, clean_timings, make_run
from tests.analysis.typical_steps import eager_run, graphed_run, typical_of
from tests.samples import compared_sample

COMPARED = (
    "capture-schemes",
    "creation-order",
    "decode",
    "fork-join",
    "gpt-train",
    "mlp-train",
    "moved-inputs",
    "superset",
    "tp-transformer",
    "transformer-train",
)


def _waterfall(run: Run, baseline: Run, return_ns: int = 10) -> Waterfall:
    found = build_waterfall(run, baseline, typical_of(run), typical_of(baseline), return_ns)
    assert isinstance(found, Waterfall), found
    return found


def _two_kernels(name: str, streams: tuple[int, int] = (7, 7)) -> Run:
    """Two kernels of 3,000 ns a step, launched 100 ns apart on ``streams``."""
    frames = Frames()
    for index in range(6):
        begin = index * 20_000
        frames.step(index, begin, begin + 11_000)
        first = begin + 2_010
        second = first + (100 if streams[0] != streams[1] else 3_000)
        for stream, launch, start in zip(streams, (2_000, 2_100), (first, second), strict=True):
            frames.kernel("gemm", begin + launch, start, 3_000, stream=stream)
        frames.call("cudaDeviceSynchronize", begin + 10_000)
    return make_run(name, clean=clean_timings([11_000] * 40, launch=10_000), trace=frames.trace())


class TestParts:
    def test_every_part_of_a_known_step(self) -> None:
        found = _waterfall(graphed_run(), eager_run())
        # The first launch at 2,000, scaled by a half, its kernel 2 ns of the call and 8 later; the
        # second at 8,000 ends at 4,000 + 1 + 8 + 300; the CPU returns at 5,000.
        gaps = 1_009 + (4_009 - 1_509) + (5_000 - 4_309)
        assert found.before == CauseTimes(gaps, 800, 0, 0, 10, 0, 5_200 - gaps - 800 - 10)
        # Launched at 10 (0 when scaled by 20 over 990), begun 88 after the call had begun to
        # return, and 10 between the two.
        assert found.after == CauseTimes(98, 810, 0, 0, 10, 0, 950 - 98 - 810 - 10)
        assert found.scales == (0.5, 20 / 990)
        assert found.saved.kernels == -10
        assert found.saved.total == 5_200 - 950

    def test_waiting_in_a_synchronising_call_is_not_a_launch_gap(self) -> None:
        found = _waterfall(graphed_run(), eager_run(sync=True))
        # From the end of the first kernel at 1,509 to the return of the call at 3,000.
        assert found.before.synchronisation == 10 + 1_491
        assert found.before.gaps == 1_009 + (4_009 - 3_000) + (5_000 - 4_309)

    def test_a_copy_that_is_gone_is_saved(self) -> None:
        found = _waterfall(graphed_run(), eager_run(extra=True))
        assert found.saved.copies == 100
        assert found.pairs.counts[PairKind.REMOVED] == 1
        assert found.pairs.counts[PairKind.SAME] == 2

    def test_modules_and_operators_divide_the_whole(self) -> None:
        found = _waterfall(graphed_run(), eager_run(extra=True))
        for shares in (found.modules, found.operators):
            for side in ("before", "after"):
                whole = CauseTimes()
                for share in shares:
                    whole += getattr(share, side)
                assert whole == getattr(found, side)
            rest = next(share for share in shares if share.label == STEP_LEVEL)
            assert rest.saved.remainder == found.saved.remainder

    def test_work_at_once_is_overlap_and_no_less_work(self) -> None:
        found = _waterfall(_two_kernels("graph", streams=(7, 9)), _two_kernels("eager"))
        assert found.saved.kernels == 0
        assert found.before.overlap == 0
        # The second kernel is launched 100 after the first, which runs for 3,000.
        assert found.after.overlap == found.saved.overlap * -1 == -2_900
        assert found.has_overlap
        assert dict(found.saved_by_cause)[Cause.OVERLAP] == 2_900
        alike = _waterfall(_two_kernels("graph"), _two_kernels("eager"))
        assert Cause.OVERLAP not in dict(alike.saved_by_cause)

    def test_a_run_against_itself_saves_nothing(self) -> None:
        found = _waterfall(eager_run(), eager_run())
        assert found.saved == CauseTimes()


class TestReasons:
    def test_without_a_trace(self) -> None:
        bare = make_run("eager", clean=clean_timings([100]))
        said = build_waterfall(
            graphed_run(), bare, typical_of(graphed_run()), build_typical_step(bare), 0
        )
        assert said == Missing(
            Fact.TRACED_PASS, "the baseline eager: the bundle has no traced pass"
        )

    def test_without_a_clean_pass(self) -> None:
        bare = make_run("graph", trace=graphed_run().replay_trace)
        said = build_waterfall(bare, eager_run(), typical_of(bare), typical_of(eager_run()), 0)
        assert said == Missing(Fact.STEP_TIMES, "the bundle has no clean pass")


@pytest.mark.parametrize("name", COMPARED)
class TestShipped:
    @staticmethod
    def _compared(name: str) -> Comparison:
        return compared_sample(name)

    def test_the_parts_add_up_and_the_remainder_is_small(self, name: str) -> None:
        found = [run.waterfall for run in self._compared(name).runs if not run.is_baseline]
        assert found
        for one in found:
            assert one is not None
            assert one.saved.total == one.before_ns - one.after_ns
            assert one.before.total == one.before_ns
            assert one.after.total == one.after_ns
            assert one.remainder_share <= 0.05, one.run
            for shares in (one.modules, one.operators):
                assert sum(share.saved.total for share in shares) == one.saved.total
            assert min(one.before.gaps, one.after.gaps, one.before.kernels) >= 0

    def test_the_figures_are_the_equations(self, name: str) -> None:
        for run in self._compared(name).runs:
            if not isinstance(run.waterfall, Waterfall):
                continue
            parts = dict(run.waterfall.saved.list_items())
            assert run["gaps_removed"].value == parts[Cause.GAPS]
            assert run["remainder"].value == parts[Cause.REMAINDER]
            saving = run["step_saving"].value or 0.0
            assert sum(parts.values()) == pytest.approx(saving, abs=1)
