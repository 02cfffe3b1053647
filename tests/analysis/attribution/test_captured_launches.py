from __future__ import annotations

import pytest

from graphviz_dash.analysis.attribution.attribution import (
    ORDER_ALIGNED,
    attribute_graph,
    parse_launched_kind,
)
from graphviz_dash.model.graph import NodeKind
from tests.analysis.scenes import ENGINE, Scene, graph_of, kernel, memset


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ("cudaLaunchKernel", NodeKind.KERNEL),
        ("cudaLaunchKernelExC", NodeKind.KERNEL),
        ("cudaLaunchCooperativeKernel", NodeKind.KERNEL),
        ("cuLaunchKernelEx", NodeKind.KERNEL),
        ("hipExtModuleLaunchKernel", NodeKind.KERNEL),
        ("hipLaunchKernel", NodeKind.KERNEL),
        ("cudaMemcpyAsync", NodeKind.MEMCPY),
        ("cudaMemcpy2DAsync", NodeKind.MEMCPY),
        ("cuMemcpyHtoDAsync_v2", NodeKind.MEMCPY),
        ("cudaMemsetAsync", NodeKind.MEMSET),
        ("cuMemsetD32Async", NodeKind.MEMSET),
        ("cudaLaunchHostFunc", NodeKind.HOST),
        ("cudaMallocAsync", NodeKind.MEM_ALLOC),
        ("cudaFreeAsync", NodeKind.MEM_FREE),
        ("cudaMemcpy", None),
        ("cudaGraphLaunch", None),
        ("cudaStreamIsCapturing", None),
        ("cudaLaunchCooperativeKernelMultiDevice", None),
        ("aten::cudaLaunchKernel", None),
    ],
)
def test_a_call_maps_to_the_node_kind_it_captures(call: str, kind: NodeKind | None) -> None:
    assert parse_launched_kind(call) is kind


class TestWhichLaunches:
    def test_only_those_between_begin_and_end_whatever_the_thread(self) -> None:
        scene = Scene()
        scene.launch(50)
        scene.capture(100, 200)
        first = scene.op("aten::first", 110, 120)
        scene.launch(115, external=first)
        second = scene.op("aten::second", 130, 140, tid=ENGINE)
        scene.launch(135, tid=ENGINE, external=second)
        scene.launch(250)
        found = attribute_graph(graph_of([kernel(0), kernel(1)]), scene.trace())
        assert [origin.op for origin in found.origins] == ["aten::first", "aten::second"]
        assert found.capture_launches == 2

    def test_a_launch_that_ran_on_the_gpu_was_not_captured(self) -> None:
        scene = Scene()
        scene.capture(100, 200)
        # Another thread works on a stream of its own meanwhile.
        ran = scene.launch(110, tid=77)
        scene.work(kernel(0), 130, ran)
        mine = scene.op("aten::mine", 140, 150)
        scene.launch(145, external=mine)
        found = attribute_graph(graph_of([kernel(0)]), scene.trace())
        assert found.origins[0].op == "aten::mine"
        assert found.origins[0].method == ORDER_ALIGNED

    def test_a_driver_call_within_a_runtime_call_counts_once(self) -> None:
        scene = Scene()
        scene.capture(100, 200)
        scene.call("cudaLaunchKernelExC", 110, 10)
        scene.call("cuLaunchKernelEx", 112, 6)
        scene.call("cuLaunchKernel", 130, 6)
        found = attribute_graph(graph_of([kernel(0), kernel(1)]), scene.trace())
        assert found.capture_launches == 2
        calls = [origin.launch_call for origin in found.origins]
        assert calls == ["cudaLaunchKernelExC", "cuLaunchKernel"]

    def test_several_captures_are_told_apart_by_their_ranges(self) -> None:
        scene = Scene()
        for number, start in enumerate((100, 300)):
            scene.capture(start, start + 50, f"graph-{number}")
            scene.launch(
                start + 20, external=scene.op(f"aten::of_{number}", start + 10, start + 30)
            )
        trace = scene.trace()
        for number in (0, 1):
            found = attribute_graph(graph_of([kernel(0)], name=f"graph-{number}"), trace)
            assert found.origins[0].op == f"aten::of_{number}"

    def test_without_ranges_the_capture_whose_launches_fit(self) -> None:
        scene = Scene()
        scene.capture(100, 150, None)
        scene.launch(110)
        scene.capture(200, 250, None)
        scene.call("cudaMemsetAsync", 210)
        scene.launch(220, external=scene.op("aten::sum", 215, 230))
        found = attribute_graph(graph_of([memset(0), kernel(1)]), scene.trace())
        assert found.origins[1].op == "aten::sum"
        assert found.origins[1].confidence == 1.0

    def test_without_ranges_two_captures_alike_are_not_guessed_between(self) -> None:
        scene = Scene()
        for start in (100, 200):
            scene.capture(start, start + 50, None)
            scene.launch(start + 10, external=scene.op("aten::sum", start + 5, start + 30))
        found = attribute_graph(graph_of([kernel(0)]), scene.trace())
        assert found.origins[0].op is None
        assert found.origins[0].reason == "the trace contains several equal captures"
