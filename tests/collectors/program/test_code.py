from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.model.graph import KernelParams
from tests.collectors.cupti.test_code_reader import LIBRARY
from tests.collectors.program.recorded import CAPTURE, run_apart, seen

PROGRAM = (
    CAPTURE
    + """
import mmap
from pathlib import Path

import msgspec
from collectors.program import recorder
from graphviz_dash.model.graph import CapturedGraph, EdgeType, GraphEdge, GraphNode, KernelParams
from graphviz_dash.model.graph import NodeKind

def read(graph_id):
    kernels = (KernelParams(name, name, (1, 1, 1), (1, 1, 1), 0) for name in ("plain", "waits"))
    nodes = tuple(GraphNode(index, NodeKind.KERNEL, params) for index, params in enumerate(kernels))
    return (CapturedGraph(graph_id, nodes, (GraphEdge(0, 1, type=EdgeType.{type}),), "driver"),)

recorder.read_open_capture = read
with open("libkernels.so", "rb") as file:
    library = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
graph = captured()
for _ in range(3):
    graph.replay()
{end}
"""
)


def record(folder: Path, kind: str, end: str = "") -> list[KernelParams]:
    (folder / "libkernels.so").write_bytes(LIBRARY)
    result = run_apart(folder, PROGRAM.replace("{type}", kind).replace("{end}", end))
    assert result.returncode in (0, -9), result.stderr
    (graph,) = seen(folder)[0].graphs
    return [node.params for node in graph.nodes if isinstance(node.params, KernelParams)]


@pytest.mark.parametrize("end", ["", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"])
def test_the_code_of_programmatic_kernels_is_read_after_the_program(
    tmp_path: Path, end: str
) -> None:
    plain, waits = record(tmp_path, "PROGRAMMATIC", end)
    assert (plain.dependency_wait, plain.early_trigger) == (False, False)
    assert (waits.dependency_wait, waits.early_trigger) == (True, False)


def test_kernels_without_programmatic_edges_are_not_read(tmp_path: Path) -> None:
    assert {kernel.dependency_wait for kernel in record(tmp_path, "FULL")} == {None}
