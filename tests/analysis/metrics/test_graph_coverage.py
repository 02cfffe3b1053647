from __future__ import annotations

import pytest

from graphviz_dash.analysis.metrics.graph_coverage import (
    Coverage,
    Reason,
    StayedEager,
    compute_coverage,
)
from graphviz_dash.analysis.trace.gpu_records import find_missing_gpu_work
from graphviz_dash.analysis.trace.steps import find_steps
from tests.analysis.frames import Frames

ENGINE = "autograd::engine::evaluate_function: "


def covered(frames: Frames) -> Coverage:
    trace = frames.trace()
    found = compute_coverage(trace, find_steps(trace))
    assert isinstance(found, Coverage)
    return found


def launched_in(frames: Frames, at: int, *ops: str, took: int = 10, tid: int = 1) -> None:
    """A kernel that was launched at ``at`` within ``ops``, outermost first."""
    for depth, op in enumerate(ops):
        frames.op(op, at - 8 + depth, at + 8 - depth, tid)
    correlation = frames.call("cudaLaunchKernel", at, tid=tid)
    frames.work("kernel", at + 100, took, correlation=correlation)


def two_steps(*ops: str, range_name: str = "") -> StayedEager:
    """The one thing that stayed eager in two equal steps with a graph of three kernels each."""
    frames = Frames()
    for index in range(2):
        begin = index * 1000
        frames.step(index, begin, begin + 900)
        graph = frames.call("cudaGraphLaunch", begin + 10)
        for place in range(3):
            frames.work("in the graph", begin + 20 + 30 * place, 30, correlation=graph)
        if range_name:
            frames.range(range_name, begin + 300, begin + 500)
        launched_in(frames, begin + 400, *ops)
    found = covered(frames)
    assert (found.work_share, found.time_share, found.nodes) == (0.75, 0.9, 3)
    (only,) = found.eager
    assert (only.count, only.total_ns, only.share) == (1, 10, 0.1)
    return only


class TestReasons:
    @pytest.mark.parametrize(
        ("ops", "reason", "operator"),
        [
            (("aten::mse_loss", "aten::mean"), Reason.FORWARD, "aten::mse_loss"),
            (("Graphed", "aten::copy_"), Reason.INPUT, "Graphed"),
            (
                (ENGINE + "GraphedBackward", "GraphedBackward", "aten::copy_"),
                Reason.INPUT,
                "GraphedBackward",
            ),
            (
                (ENGINE + "ReluBackward0", "ReluBackward0", "aten::threshold_backward"),
                Reason.BACKWARD,
                "ReluBackward0",
            ),
            (
                ("Torch-Compiled Region: 0/0", "CompiledFunction", "aten::_foreach_copy_"),
                Reason.INPUT,
                "CompiledFunction",
            ),
            (
                ("Torch-Compiled Region: 0/0", "CompiledFunction", "triton_poi_fused_relu_0"),
                Reason.COMPILED,
                "CompiledFunction",
            ),
            ((), Reason.NO_OPERATOR, None),
        ],
    )
    def test_by_the_operators_around_the_launch(
        self, ops: tuple[str, ...], reason: Reason, operator: str | None
    ) -> None:
        found = two_steps(*ops)
        assert (found.reason, found.operator) == (reason, operator)

    def test_the_optimizer_is_one_group(self) -> None:
        found = two_steps("aten::_foreach_add_", range_name="Optimizer.step#Adam.step")
        assert (found.reason, found.operator) == (Reason.OPTIMIZER, "Optimizer.step")

    def test_a_copy_of_the_users_own_is_no_input(self) -> None:
        assert two_steps("aten::copy_").reason is Reason.FORWARD


def test_groups_are_means_over_the_steps_longest_first() -> None:
    frames = Frames()
    for index in range(2):
        frames.step(index, index * 1000, index * 1000 + 900)
    launched_in(frames, 100, "aten::seldom", took=30)
    launched_in(frames, 200, "aten::often", took=40)
    launched_in(frames, 1200, "aten::often", took=20)
    assert [(group.operator, group.count, group.total_ns) for group in covered(frames).eager] == [
        ("aten::often", 1, 30),
        ("aten::seldom", 0.5, 15),
    ]


def test_everything_from_graphs_leaves_nothing() -> None:
    frames = Frames()
    frames.step(0, 0, 900)
    frames.work("only", 20, 30, correlation=frames.call("cudaGraphLaunch", 10))
    found = covered(frames)
    assert (found.work_share, found.time_share, found.eager) == (1, 1, ())


class TestGenerator:
    def scene(self, *fills: int, graph_at: int, graph_tid: int = 1) -> list[Reason]:
        frames = Frames()
        frames.step(0, 0, 1000)
        for at in fills:
            launched_in(frames, at, "aten::fill_")
        graph = frames.call("cudaGraphLaunch", graph_at, tid=graph_tid)
        frames.work("in the graph", 700, 10, correlation=graph)
        return [group.reason for group in covered(frames).eager]

    def test_a_pair_of_fills_right_before_a_replay(self) -> None:
        assert self.scene(100, 200, graph_at=300) == [Reason.GENERATOR]

    def test_a_third_is_the_users_own(self) -> None:
        assert self.scene(50, 100, 200, graph_at=300) == [Reason.GENERATOR, Reason.FORWARD]

    def test_one_alone_is_the_users_own(self) -> None:
        assert self.scene(100, graph_at=300) == [Reason.FORWARD]

    def test_on_another_thread(self) -> None:
        assert self.scene(100, 200, graph_at=300, graph_tid=2) == [Reason.FORWARD]

    def test_after_the_replay(self) -> None:
        assert self.scene(300, 400, graph_at=200) == [Reason.FORWARD]


class TestNone:
    def test_without_marked_steps(self) -> None:
        frames = Frames()
        frames.kernel("k", 0, 10, 10)
        trace = frames.trace()
        assert (
            compute_coverage(trace, find_steps(trace)).reason
            == "the trace marks no steps, as prof.step() does"
        )

    def test_without_gpu_work(self) -> None:
        frames = Frames()
        frames.step(0, 0, 100)
        trace = frames.trace()
        assert compute_coverage(trace, find_steps(trace)) == find_missing_gpu_work(trace)
        frames.kernel("after the steps", launched=200, ts=210, dur=5)
        trace = frames.trace()
        assert (
            compute_coverage(trace, find_steps(trace)).reason
            == "nothing ran on the GPU in the traced steps"
        )

    def test_without_launches(self) -> None:
        frames = Frames()
        frames.step(0, 0, 100)
        frames.work("k", 10, 10)
        trace = frames.trace()
        assert (
            compute_coverage(trace, find_steps(trace)).reason
            == "the trace links no GPU work to its launch"
        )
