from __future__ import annotations

from graphviz_dash.analysis.step_comparison.typical_step import build_typical_step
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.absence import Fact, Missing
from tests.analysis.frames import Frames, make_run
from tests.analysis.typical_steps import typical_of
from tests.samples import SAMPLES


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
        found = typical_of(make_run("eager", trace=frames.trace()))
        assert (found.matching_steps, found.traced_steps) == (4, 5)
        assert [item.name for item in found.items] == ["gemm"]
        assert found.duration.tolist() == [52]  # of 51 to 54, rounded to even

    def test_each_step_may_replay_a_graph_of_its_own(self) -> None:
        """Under torch.compile each of a text's tokens has a graph, all of the same nodes; one of
        the traced steps reads a prompt."""
        found = typical_of(load_run(SAMPLES / "compile-generate" / "fixed-0"))
        assert (found.matching_steps, found.traced_steps) == (9, 10)

    def test_the_return_is_counted_from_the_end_of_what_it_waited_for(self) -> None:
        frames = Frames()
        frames.step(0, 0, 1_000)
        frames.kernel("gemm", 10, 20, 500)
        call = frames.call("cudaDeviceSynchronize", 100)
        next(row for row in frames.runtime if row["correlation"] == call)["dur"] = 430
        assert typical_of(make_run("eager", trace=frames.trace())).return_ns == 10


class TestReasons:
    def test_without_marked_steps(self) -> None:
        frames = Frames()
        frames.kernel("gemm", 10, 20, 5)
        assert "marks no steps" in str(build_typical_step(make_run("eager", trace=frames.trace())))

    def test_without_a_synchronisation(self) -> None:
        frames = Frames()
        frames.step(0, 0, 100)
        frames.kernel("gemm", 10, 20, 5)
        said = build_typical_step(make_run("eager", trace=frames.trace()))
        assert said == Missing(
            Fact.TYPICAL_STEP, "the trace shows no synchronisation at the end of a step"
        )
