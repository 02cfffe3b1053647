# What needs torch is imported where torch is known to be there.
# ruff: noqa: E402

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs a CUDA GPU; torch is not installed")
driver = pytest.importorskip("cuda.bindings.driver", reason="needs cuda-python")

from collectors.collection.environment import read_environment
from collectors.driver.calls import call
from collectors.driver.capabilities import is_node_enabled, try_device_launch, try_update
from collectors.driver.topology import read_graph, read_graph_with_positions
from collectors.passes.capture_listener import get_executable, record_captures
from collectors.passes.modes import VariantReplays, prepare_mode
from collectors.workloads.creation_order import CHAINS, ChainOrder, CreationOrder
from collectors.workloads.explicit import GraphBuilder, Kernels, create_graph
from collectors.workloads.graph_update import VARIANTS, graph_update
from collectors.workloads.superset import LAYERS, Depth, Superset
from graphviz_dash.analysis.graph.device_launch import (
    DeviceLaunchVerdict,
    check_device_launch_rules,
)
from graphviz_dash.features.graph.diff.update_prediction import predict_update
from graphviz_dash.model.graph import NodeKind
from graphviz_dash.model.run import ExecutionMode

SOURCE = 'extern "C" __global__ void spin(long long n) { if (n < 0) asm("trap;"); }'
NESTED = """
__global__ void inner() {}
extern "C" __global__ void outer(long long n) { if (n > 0) inner<<<1, 1>>>(); }
extern "C" __global__ void spin(long long n) {}
"""


class Cases:
    """Graphs to ask the driver about; buffers live as long as this."""

    def __init__(self) -> None:
        self.spin = Kernels(SOURCE)["spin"]
        self.device = torch.zeros(1 << 16, dtype=torch.uint8, device="cuda")
        self.other = torch.zeros_like(self.device)
        self.pinned = torch.zeros(1 << 16, dtype=torch.uint8).pin_memory()
        self.pageable = torch.zeros(1 << 16, dtype=torch.uint8)
        self.event = call(driver.cuEventCreate, 0)
        self.called = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)

    def kernel(self, graph: GraphBuilder, *after: Any, function: Any = None) -> Any:
        arguments = ((1,), (ctypes.c_longlong,))
        return graph.add_kernel(function or self.spin, 1, 32, arguments, after)

    def together(self, graph: GraphBuilder) -> Any:
        node = self.kernel(graph)
        value = driver.CUkernelNodeAttrValue()
        value.cooperative = 1
        which = driver.CUkernelNodeAttrID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        call(driver.cuGraphKernelNodeSetAttribute, node, which, value)
        return node

    def copy(self, graph: GraphBuilder, source: Any, kind: str, *after: Any) -> Any:
        """A copy of 4 KiB."""
        return graph.add_copy(self.other.data_ptr(), source.data_ptr(), 4096, kind, after)

    def child(self, graph: GraphBuilder, build: Callable[[GraphBuilder], Any]) -> Any:
        with create_graph() as inner:
            build(inner)
            return graph.add_child(inner.graph, [])

    def host(self, graph: GraphBuilder, *after: Any) -> Any:
        address = ctypes.cast(self.called, ctypes.c_void_p).value or 0
        return graph.add_host_call(address, 0, after)

    def allocation(self, graph: GraphBuilder) -> Any:
        """An allocation, used and freed."""
        node, address = graph.add_allocation(4096, [])
        return graph.add_free(address, [self.kernel(graph, node)])


LAUNCHABLE: dict[str, tuple[Callable[[Cases, GraphBuilder], Any], DeviceLaunchVerdict]] = {
    "kernels": (lambda c, g: c.kernel(g, c.kernel(g)), DeviceLaunchVerdict.YES),
    "cooperative": (lambda c, g: c.together(g), DeviceLaunchVerdict.YES),
    "copy on the device": (lambda c, g: c.copy(g, c.device, "DtoD"), DeviceLaunchVerdict.YES),
    "copy of pinned memory": (lambda c, g: c.copy(g, c.pinned, "HtoD"), DeviceLaunchVerdict.YES),
    "copy of pageable memory": (lambda c, g: c.copy(g, c.pageable, "HtoD"), DeviceLaunchVerdict.NO),
    "set": (lambda c, g: g.add_fill(c.device.data_ptr(), 1, 64, []), DeviceLaunchVerdict.YES),
    "child graph": (lambda c, g: c.child(g, c.kernel), DeviceLaunchVerdict.YES),
    "host inside a child": (lambda c, g: c.child(g, c.host), DeviceLaunchVerdict.NO),
    "host": (lambda c, g: c.host(g, c.kernel(g)), DeviceLaunchVerdict.NO),
    "empty node": (lambda c, g: g.add_empty([c.kernel(g)]), DeviceLaunchVerdict.NO),
    "event": (lambda c, g: g.add_event_record(c.event, [c.kernel(g)]), DeviceLaunchVerdict.NO),
    "allocation": (lambda c, g: c.allocation(g), DeviceLaunchVerdict.NO),
    "nothing": (lambda c, g: None, DeviceLaunchVerdict.NO),
}


@pytest.fixture(scope="module")
def cases() -> Cases:
    return Cases()


@pytest.mark.parametrize("name", LAUNCHABLE)
def test_the_driver_agrees_on_what_can_be_launched_from_the_device(cases: Cases, name: str) -> None:
    build, expected = LAUNCHABLE[name]
    with create_graph() as builder:
        build(cases, builder)
        graphs, places = read_graph_with_positions(int(builder.graph), "graph-0")
        answer = try_device_launch(builder.graph, places)
    found = check_device_launch_rules(graphs, read_environment())
    assert found.verdict is expected, found
    assert (answer.result == "SUCCESS") is (expected is DeviceLaunchVerdict.YES), answer
    if answer.node is not None:
        assert (answer.graph, answer.node) in {(v.graph, v.node) for v in found.violations}


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc to link device code")
def test_a_kernel_that_launches_kernels_is_told_from_one_that_does_not(
    cases: Cases, tmp_path: Path
) -> None:
    (tmp_path / "nested.cu").write_text(NESTED)
    major, minor = torch.cuda.get_device_capability()
    subprocess.run(
        ["nvcc", f"-arch=sm_{major}{minor}", "-rdc=true", "-fatbin", "-dlink", "-lcudadevrt",
         "-o", "nested.fatbin", "nested.cu"],
        cwd=tmp_path, check=True,
    )  # fmt: skip
    module = call(driver.cuModuleLoadData, (tmp_path / "nested.fatbin").read_bytes())
    graphs = {}
    with create_graph() as nested, create_graph() as plain:
        cases.kernel(nested, function=call(driver.cuModuleGetFunction, module, b"outer"))
        cases.kernel(plain, function=call(driver.cuModuleGetFunction, module, b"spin"))
        for name, builder in (("nested", nested), ("plain", plain)):
            graphs[name] = read_graph_with_positions(int(builder.graph), name)
        facts = {name: graph[0][0].nodes[0].params for name, graph in graphs.items()}
        assert getattr(facts["nested"], "dynamic_parallelism", None) is True
        assert getattr(facts["plain"], "dynamic_parallelism", None) is False
        handles = {"nested": nested.graph, "plain": plain.graph}
        for of, by in permutations(handles, 2):
            said = try_update((of, handles[of]), (by, handles[by]), graphs[by][1], 1)
            found = predict_update(graphs[of][0], graphs[by][0])
            assert (found.violation.result if found.violation else "SUCCESS") == said.result.result


class Handles:
    def __init__(self) -> None:
        self.of: dict[str, int] = {}

    def on_capture_start(self, graph_id: str) -> None: ...

    def on_capture_end(self, graph_id: str, handle: int, capture_ns: int) -> None:
        self.of[graph_id] = handle

    def on_instantiation(self, graph_id: str, handle: int, instantiate_ns: int) -> None: ...

    def on_first_launch(self, graph_id: str, call_ns: int, complete_ns: int) -> None: ...


def test_every_pair_of_variants_is_predicted_as_the_driver_answers() -> None:
    step = graph_update()
    listener = Handles()
    with record_captures(listener):
        ready = prepare_mode(ExecutionMode.GRAPH, step)
    assert isinstance(ready, VariantReplays)
    assert ready.names == tuple(VARIANTS)
    read = {name: read_graph_with_positions(handle, name) for name, handle in listener.of.items()}
    results = set()
    for of, by in permutations(read, 2):
        graphs = driver.CUgraph(listener.of[of]), driver.CUgraph(listener.of[by])
        said = try_update((of, graphs[0]), (by, graphs[1]), read[by][1], 2)
        found = predict_update(read[of][0], read[by][0])
        assert found.is_accepted is (said.result.result == "SUCCESS"), (of, by, said, found)
        results.add(said.result.result)
        assert len(said.update_ns) == len(said.instantiate_ns) == 2
        if found.violation is not None:
            violation = found.violation
            told = said.result
            assert (violation.result, violation.node, violation.from_node) == (
                told.result,
                told.node,
                told.from_node,
            )
    assert len(results) >= 3, results


@pytest.fixture
def one_superset() -> Iterator[tuple[Superset, Any]]:
    step = Superset(Depth(layers=3))
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        step()
    graph.instantiate()
    yield step, graph
    del graph


def test_switched_off_nodes_are_told_and_do_not_run(one_superset: tuple[Superset, Any]) -> None:
    step, graph = one_superset
    executable = get_executable(graph)
    if executable is None:
        pytest.skip("this torch does not give the executable graph")
    graph.replay()
    torch.cuda.synchronize()
    whole = step.result.clone()
    step.adjust(executable)
    graph.replay()
    torch.cuda.synchronize()
    (read,), places = read_graph_with_positions(graph.raw_cuda_graph(), "graph-0")
    kernels = [node.index for node in read.nodes if node.kind is NodeKind.KERNEL]
    handles = {index: handle for handle, (_, index) in places.items()}
    on = [is_node_enabled(executable, handles[index]) for index in kernels]
    assert on == [True] * 3 + [False] * (LAYERS - 3)
    layer = torch.zeros(1)
    for _ in range(3):
        layer = torch.tanh(layer) + 1
    assert torch.allclose(step.result, layer.expand_as(step.result), atol=1e-5)
    assert not torch.allclose(step.result, whole)


def _median_ms(order: str) -> float:
    step, graph = CreationOrder(ChainOrder(order)), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    times = []
    for _ in range(15):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return sorted(times)[7]


def test_both_orders_of_creation_hold_the_same_nodes() -> None:
    found = {}
    for order in ("longest-copy", "shortest-copy"):
        graph = torch.cuda.CUDAGraph(keep_graph=True)
        step = CreationOrder(ChainOrder(order))
        with torch.cuda.graph(graph):
            step()
        (read,) = read_graph(graph.raw_cuda_graph(), "graph-0")
        sizes = [getattr(node.params, "bytes", None) for node in read.nodes]
        found[order] = [size for size in sizes if size]
        assert len(read.nodes) == 2 * len(CHAINS) + 1
    assert found["longest-copy"] == found["shortest-copy"][::-1]


def test_the_order_of_creation_decides_what_overlaps() -> None:
    # By Johnson's rule the orders differ by a third; other work on the GPU may blur it.
    assert _median_ms("shortest-copy") < 0.9 * _median_ms("longest-copy")
