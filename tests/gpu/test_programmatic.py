from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.model.graph import CapturedGraph, EdgeType, KernelParams, NodeKind

pytestmark = pytest.mark.gpu

SOURCE = Path(__file__).parents[1] / "cases" / "launch-control" / "kernels.cu"


def test_kernels_that_are_loaded_now() -> None:
    torch = pytest.importorskip("torch")
    from cuda.bindings import driver, nvrtc

    from collectors.cupti.cubin import LaunchControl
    from collectors.cupti.modules import watch_modules
    from collectors.driver.calls import call

    major, minor = torch.cuda.get_device_capability()
    if major < 9:
        pytest.skip("griddepcontrol needs compute capability 9.0")
    torch.zeros(1, device="cuda")
    program = call(nvrtc.nvrtcCreateProgram, SOURCE.read_bytes(), b"kernels.cu", 0, [], [])
    call(nvrtc.nvrtcCompileProgram, program, 1, [f"-arch=sm_{major}{minor}".encode()])
    cubin = b" " * call(nvrtc.nvrtcGetCUBINSize, program)
    call(nvrtc.nvrtcGetCUBIN, program, cubin)
    with watch_modules() as kernels:
        module = call(driver.cuModuleLoadData, cubin)
        for name in (b"plain", b"waits", b"triggers", b"both"):
            call(driver.cuModuleGetFunction, module, name)
    assert {name: kernels.get(name) for name in ("plain", "waits", "triggers", "both")} == {
        "plain": LaunchControl(waits=False, triggers=False),
        "waits": LaunchControl(waits=True, triggers=False),
        "triggers": LaunchControl(waits=False, triggers=True),
        "both": LaunchControl(waits=True, triggers=True),
    }


def test_a_recorded_graph_has_the_code_of_its_kernels(tmp_path: Path) -> None:
    from collectors.collection.cli import collect

    options = ["--workload=decode", "--modes=graph", "--processes=1", "--iterations=5"]
    options += ["--traced-iterations=2", "--no-limits", f"--output={tmp_path / 'decode'}"]
    result = CliRunner().invoke(collect, options)
    assert result.exit_code == 0, result.output
    graphs = read_bundle(tmp_path / "decode" / "graph").graphs
    kernels = [
        node.params
        for graph in graphs
        for node in graph.nodes
        if node.kind is NodeKind.KERNEL and isinstance(node.params, KernelParams)
    ]
    known = [kernel for kernel in kernels if kernel.dependency_wait is not None]
    assert len(known) > 0.9 * len(kernels)
    _check_cublas_edges(graphs)


_PROGRAM = """
import torch
from collectors.workloads.decode import decode

step = decode()
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    for _ in range(3):
        step()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    step()
for _ in range(20):
    graph.replay()
torch.cuda.synchronize()
"""


def test_edges_of_a_recorded_program_have_the_code_of_their_kernels(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    (tmp_path / "train.py").write_text(_PROGRAM)
    command = [sys.executable, "-m", "collectors", "-o", "out", "--", sys.executable, "train.py"]
    path = os.pathsep.join((str(root), os.environ.get("PYTHONPATH", "")))
    subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, check=True)
    graphs = read_bundle(tmp_path / "out" / "recorded").graphs
    assert _check_cublas_edges(graphs)


def _check_cublas_edges(graphs: tuple[CapturedGraph, ...]) -> int:
    """Count programmatic edges. cuBLAS launches no kernel programmatically that does not wait."""
    count = 0
    for graph in graphs:
        for edge in graph.edges:
            if edge.type is EdgeType.PROGRAMMATIC:
                second = graph.nodes[edge.target].params
                assert isinstance(second, KernelParams)
                assert second.dependency_wait is True
                count += 1
    return count
