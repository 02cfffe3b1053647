"""The equation: steps of known truth in, parts that add up out; and the shipped experiments."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.analysis.comparison.compare import compare
from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.analysis.step.typical_step import TypicalStep, typical_step
from graphviz_dash.analysis.step.waterfall import (
    STEP_LEVEL,
    Cause,
    CauseTimes,
    Waterfall,
    waterfall,
)
from graphviz_dash.analysis.step.work_pairs import PairKind, pair_work
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.run import Run
from tests.analysis.frames import Frames, clean_timings, make_run, steps_trace

SAMPLES = Path(__file__).parents[3] / "sample_traces"
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


def _work(run: Run) -> TypicalStep:
    found = typical_step(run)
    assert isinstance(found, TypicalStep), found
    return found


def _waterfall(run: Run, baseline: Run, return_ns: int = 10) -> Waterfall:
    found = waterfall(run, baseline, _work(run), _work(baseline), return_ns)
    assert isinstance(found, Waterfall), found
    return found


def _eager(*, sync: bool = False, extra: bool = False) -> Run:
    """Two kernels a step, launched late: 10,000 ns on the CPU, half of that without the profiler.

    ``sync``: after the first kernel the CPU waits for it until 6,000; ``extra``: a copy at the end.
    """
    frames = Frames()
    for index in range(6):
        begin = index * 20_000
        frames.step(index, begin, begin + 11_000)
        frames.kernel("gemm", begin + 2_000, begin + 2_010, 500)
        if sync:
            call = frames.call("cudaStreamSynchronize", begin + 2_100)
            row = next(one for one in frames.runtime if one["correlation"] == call)
            row["dur"] = 3_900
        frames.kernel("relu", begin + 8_000, begin + 8_010, 300)
        if extra:
            copy = frames.call("cudaMemcpyAsync", begin + 9_000)
            frames.work("Memcpy DtoD", begin + 9_010, 100, kind="memcpy", correlation=copy)
        frames.call("cudaDeviceSynchronize", begin + 10_000)
    clean = clean_timings([5_200] * 40, launch=5_000)
    return make_run("eager", clean=clean, trace=frames.trace())


def _graph() -> Run:
    """The same kernels of one launch that takes 40 ns on the CPU, 20 without the profiler."""
    work = [("gemm", 500), ("relu", 310)]
    clean = clean_timings([950] * 40, launch=20)
    return make_run("graph", clean=clean, trace=steps_trace(6, 1_000, work, graph=True))


class TestParts:
    def test_every_part_of_a_known_step(self) -> None:
        found = _waterfall(_graph(), _eager())
        # The first launch at 2,000, scaled by a half, its kernel 2 ns of the call and 8 later; the
        # second at 8,000 ends at 4,000 + 1 + 8 + 300; the CPU returns at 5,000.
        gaps = 1_009 + (4_009 - 1_509) + (5_000 - 4_309)
        assert found.before == CauseTimes(gaps, 800, 0, 10, 0, 5_200 - gaps - 800 - 10)
        # Launched at 10 (0 when scaled by 20 over 990), begun 88 after the call had begun to
        # return, and 10 between the two.
        assert found.after == CauseTimes(98, 810, 0, 10, 0, 950 - 98 - 810 - 10)
        assert found.scales == (0.5, 20 / 990)
        assert found.saved.kernels == -10
        assert found.saved.total == 5_200 - 950

    def test_waiting_in_a_synchronising_call_is_not_a_launch_gap(self) -> None:
        found = _waterfall(_graph(), _eager(sync=True))
        # From the end of the first kernel at 1,509 to the return of the call at 3,000.
        assert found.before.synchronisation == 10 + 1_491
        assert found.before.gaps == 1_009 + (4_009 - 3_000) + (5_000 - 4_309)

    def test_a_copy_that_is_gone_is_saved(self) -> None:
        found = _waterfall(_graph(), _eager(extra=True))
        assert found.saved.copies == 100
        assert found.pairs.counts[PairKind.REMOVED] == 1
        assert found.pairs.counts[PairKind.SAME] == 2

    def test_modules_and_operators_divide_the_whole(self) -> None:
        found = _waterfall(_graph(), _eager(extra=True))
        for shares in (found.modules, found.operators):
            for side in ("before", "after"):
                whole = CauseTimes()
                for share in shares:
                    whole += getattr(share, side)
                assert whole == getattr(found, side)
            rest = next(share for share in shares if share.label == STEP_LEVEL)
            assert rest.saved.remainder == found.saved.remainder

    def test_a_run_against_itself_saves_nothing(self) -> None:
        found = _waterfall(_eager(), _eager())
        assert found.saved == CauseTimes()


class TestReasons:
    def test_without_marked_steps(self) -> None:
        frames = Frames()
        frames.kernel("gemm", 10, 20, 5)
        assert "marks no steps" in str(typical_step(make_run("eager", trace=frames.trace())))

    def test_without_a_trace(self) -> None:
        bare = make_run("eager", clean=clean_timings([100]))
        said = waterfall(_graph(), bare, _work(_graph()), typical_step(bare), 0)
        assert said == Missing(
            Fact.TRACED_PASS, "the baseline eager: the bundle has no traced pass"
        )

    def test_without_a_clean_pass(self) -> None:
        bare = make_run("graph", trace=_graph().replay_trace)
        said = waterfall(bare, _eager(), _work(bare), _work(_eager()), 0)
        assert said == Missing(Fact.STEP_TIMES, "the bundle has no clean pass")

    def test_without_a_synchronisation(self) -> None:
        frames = Frames()
        frames.step(0, 0, 100)
        frames.kernel("gemm", 10, 20, 5)
        said = typical_step(make_run("eager", trace=frames.trace()))
        assert said == Missing(
            Fact.TYPICAL_STEP, "the trace shows no synchronisation at the end of a step"
        )


class TestWork:
    def test_an_unlike_step_is_left_out_and_counted(self) -> None:
        frames = Frames()
        for index in range(5):
            begin = index * 1_000
            frames.step(index, begin, begin + 900)
            frames.kernel("gemm", begin + 10, begin + 20, 50 + index)
            if index == 0:
                frames.kernel("fill", begin + 100, begin + 110, 5)
            frames.call("cudaDeviceSynchronize", begin + 800)
        found = _work(make_run("eager", trace=frames.trace()))
        assert (found.matching_steps, found.traced_steps) == (4, 5)
        assert [item.name for item in found.items] == ["gemm"]
        assert found.duration.tolist() == [52]  # of 51 to 54, rounded to even

    def test_the_return_is_counted_from_the_end_of_what_it_waited_for(self) -> None:
        frames = Frames()
        frames.step(0, 0, 1_000)
        frames.kernel("gemm", 10, 20, 500)
        call = frames.call("cudaDeviceSynchronize", 100)
        next(row for row in frames.runtime if row["correlation"] == call)["dur"] = 430
        assert _work(make_run("eager", trace=frames.trace())).return_ns == 10


class TestPairs:
    def test_every_piece_of_work_is_in_one_row(self) -> None:
        pairs = pair_work(_work(_eager(extra=True)), _work(_graph()))
        assert sorted(place for row in pairs.rows for place in row.before) == [0, 1, 2]
        assert sorted(place for row in pairs.rows for place in row.after) == [0, 1]
        assert pairs.of_before == (0, 1, 2)


@pytest.mark.parametrize("name", COMPARED)
class TestShipped:
    @staticmethod
    def _compared(name: str) -> Comparison:
        return compare(load_experiment(SAMPLES / name))

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
            if run.waterfall is None:
                continue
            parts = dict(run.waterfall.saved.items())
            assert run["gaps_removed"].value == parts[Cause.GAPS]
            assert run["remainder"].value == parts[Cause.REMAINDER]
            saving = run["step_saving"].value or 0.0
            assert sum(parts.values()) == pytest.approx(saving, abs=1)


def test_compiled_work_is_paired_with_what_it_replaced() -> None:
    """The inductor's kernels stand for eager ones by their names; the optimizer is the same."""
    run = compare(load_experiment(SAMPLES / "mlp-train"))["compile"]
    assert run.waterfall is not None
    counts = run.waterfall.pairs.counts
    assert counts[PairKind.SAME] > 40
    assert counts[PairKind.OTHER] > 5
    assert "fused operators" in run.waterfall.pairs.methods
    assert sum(len(row.after) for row in run.waterfall.pairs.rows) == 62


def test_static_inputs_of_callables_are_added_copies() -> None:
    run = compare(load_experiment(SAMPLES / "mlp-train"))["callables"]
    assert run.waterfall is not None
    assert run.waterfall.pairs.counts[PairKind.ADDED] == 2
    assert run.waterfall.pairs.counts[PairKind.SAME] == 69
