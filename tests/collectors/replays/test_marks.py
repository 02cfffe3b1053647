"""Each driver call of a marking fails in turn, on a graph in this process's memory."""

# ruff: noqa: N802 - the driver's names

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from enum import IntEnum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from collectors.replays.marks_file import MAX_GRAPHS, MarksFile
from tests.faults import Countdown

EDGES = {(0, 1), (0, 2), (1, 3), (2, 3)}


class Status(IntEnum):
    SUCCESS = 0
    OUT_OF_MEMORY = 2


class Graph:
    """A graph of node numbers."""

    def __init__(self, nodes: Sequence[int], edges: set[tuple[int, int]]) -> None:
        self.nodes = list(nodes)
        self.edges = set(edges)


class Driver:
    """The driver's functions on such graphs; the chosen call fails."""

    def __init__(self) -> None:
        self.fails = Countdown(0)
        self.graph = Graph(range(4), EDGES)

    def build_module(self) -> ModuleType:
        module = ModuleType("cuda.bindings.driver")
        for name in dir(type(self)):
            if name.startswith("cuGraph"):
                setattr(module, name, self._wrap(name))
        module.CUgraph = lambda handle: self.graph  # type: ignore[attr-defined]
        return module

    def _wrap(self, name: str) -> Any:
        def function(*arguments: Any) -> tuple[Any, ...]:
            if self.fails():
                return (Status.OUT_OF_MEMORY,)
            return (Status.SUCCESS, *getattr(self, name)(*arguments))

        function.__name__ = name
        return function

    def cuGraphGetNodes(self, graph: Graph, count: int) -> tuple[Any, ...]:
        return list(graph.nodes), len(graph.nodes)

    def cuGraphGetEdges(self, graph: Graph, count: int) -> tuple[Any, ...]:
        edges = sorted(graph.edges)
        data = [SimpleNamespace(type=0, from_port=0, to_port=0)] * len(edges)
        return [edge[0] for edge in edges], [edge[1] for edge in edges], data, len(edges)

    def cuGraphNodeGetType(self, node: int) -> tuple[Any, ...]:
        return (SimpleNamespace(name="CU_GRAPH_NODE_TYPE_KERNEL"),)

    def cuGraphClone(self, graph: Graph) -> tuple[Any, ...]:
        return (Graph(graph.nodes, graph.edges),)

    def cuGraphDestroy(self, graph: Graph) -> tuple[Any, ...]:
        return (None,)

    def cuGraphAddDependencies(self, graph: Graph, sources: Any, targets: Any, *_: Any) -> Any:
        graph.edges |= set(zip(sources, targets, strict=True))
        return (None,)

    def cuGraphRemoveDependencies(self, graph: Graph, sources: Any, targets: Any, *_: Any) -> Any:
        graph.edges -= set(zip(sources, targets, strict=True))
        return (None,)

    def cuGraphAddKernelNode(self, graph: Graph, before: list[int]) -> tuple[Any, ...]:
        node = 100 + len(graph.nodes)
        graph.nodes.append(node)
        graph.edges |= {(source, node) for source in before}
        return (node,)


def list_orders(graph: Graph) -> set[tuple[int, int]]:
    """List the pairs of program nodes that the graph runs in order."""
    orders = set(graph.edges)
    while True:
        longer = {(a, d) for a, b in orders for c, d in orders if b == c} | orders
        if longer == orders:
            return {(a, b) for a, b in orders if a < 100 and b < 100}
        orders = longer


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def marks(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    bindings, module = ModuleType("cuda.bindings"), driver.build_module()
    bindings.driver, bindings.nvrtc = module, ModuleType("nvrtc")  # type: ignore[attr-defined]
    cuda = ModuleType("cuda")
    cuda.bindings = bindings  # type: ignore[attr-defined]
    modules = {"cuda": cuda, "cuda.bindings": bindings, "cuda.bindings.driver": module}
    loaded = ("collectors.replays.marks", "collectors.replays.kernels")
    with monkeypatch.context() as patched:
        for name in (*loaded, "collectors.driver.capture_mode"):
            patched.delitem(sys.modules, name, raising=False)
        for name, fake in modules.items():
            patched.setitem(sys.modules, name, fake)
        yield importlib.import_module(loaded[0])
        for name in (*loaded, "collectors.driver.capture_mode"):
            sys.modules.pop(name, None)


def test_a_graph_keeps_its_order_with_each_failing_call(
    tmp_path: Path, marks: ModuleType, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_kernel = driver._wrap("cuGraphAddKernelNode")
    kernels = SimpleNamespace(
        add_node=lambda graph, before, *_: marks.call(add_kernel, graph, list(before))
    )
    monkeypatch.setattr(marks, "get_kernels", lambda: kernels)
    marker = object.__new__(marks.Marker)
    marker.file = MarksFile(tmp_path / "marks", create=True)
    marker._mapped = marker._counts = 0
    required = list_orders(driver.graph)
    outcomes = []
    for number in range(1, 100):
        driver.graph, driver.fails = Graph(range(4), EDGES), Countdown(number)
        try:
            marker.mark(0)
            outcomes.append("marked")
        except (marks.UnmarkedError, marks.DriverError) as error:
            outcomes.append(str(error))
        assert list_orders(driver.graph) >= required, number
        if not driver.fails.over:
            break
    *refusals, last = outcomes
    assert len(refusals) > 20
    assert all("OUT_OF_MEMORY" in refusal for refusal in refusals)
    assert last == "marked"
    assert not driver.graph.edges & EDGES, "marks are between the nodes"
    marker.file.close()


def test_counters_are_zero_before_the_first_replay(
    tmp_path: Path, marks: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, tuple[Any, ...]]] = []

    def add(name: str, *results: Any) -> None:
        def function(*arguments: Any) -> tuple[Any, ...]:
            calls.append((name, arguments))
            return (Status.SUCCESS, *(results or (None,)))

        monkeypatch.setattr(marks.driver, name, function, raising=False)

    for name, result in (
        ("cuMemHostRegister", None),
        ("cuMemHostGetDevicePointer", 4096),
        ("cuMemAlloc", 8192),
        ("cuStreamCreate", "own"),
        ("cuMemsetD32Async", None),
        ("cuStreamSynchronize", None),
        ("cuStreamDestroy", None),
    ):
        add(name, result)
    monkeypatch.setattr(marks, "relax_capture_mode", nullcontext)
    for name in ("CU_MEMHOSTREGISTER_DEVICEMAP", "CU_MEMHOSTREGISTER_PORTABLE"):
        monkeypatch.setattr(marks.driver, name, 0, raising=False)
    flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
    monkeypatch.setattr(marks.driver, "CUstream_flags", flags, raising=False)
    marks.Marker(tmp_path / "marks")
    # Behind a program's work on the default stream, the counters would be cleared during replays.
    assert calls[-4:] == [
        ("cuStreamCreate", (1,)),
        ("cuMemsetD32Async", (8192, 0, MAX_GRAPHS, "own")),
        ("cuStreamSynchronize", ("own",)),
        ("cuStreamDestroy", ("own",)),
    ]
