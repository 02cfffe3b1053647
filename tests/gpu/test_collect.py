from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from click.testing import CliRunner, Result

from graphviz_dash.bundle.read import BundleContents, read_bundle
from graphviz_dash.model.graph import NodeKind
from graphviz_dash.model.marks import CAPTURE, MODULE, SOURCE, STEP

ITERATIONS = 12
TRACED = 3
PROCESSES = 2
LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx")
COPIES = ("cudaMemcpyAsync", "cudaMemsetAsync")


def collect(output: Path, workload: str) -> Result:
    from collectors.collection.cli import collect as command

    return CliRunner().invoke(
        command,
        [
            f"--workload={workload}",
            f"--output={output}",
            f"--iterations={ITERATIONS}",
            f"--processes={PROCESSES}",
            f"--traced-iterations={TRACED}",
        ],
    )


def events(path: Path | None) -> list[dict[str, Any]]:
    assert path is not None
    with gzip.open(path) as file:
        found: list[dict[str, Any]] = json.load(file)["traceEvents"]
    return found


def launches_inside(trace: list[dict[str, Any]]) -> int:
    """Launch calls between the begin and the end of the capture."""
    bound = {
        event["name"]: event["ts"]
        for event in trace
        if event.get("name") in ("cudaStreamBeginCapture", "cudaStreamEndCapture")
    }
    return sum(
        bound["cudaStreamBeginCapture"] < event["ts"] < bound["cudaStreamEndCapture"]
        for event in trace
        if event.get("name") in LAUNCHES + COPIES
    )


@pytest.fixture(scope="module", params=["mlp-train", "transformer-train", "decode", "fork-join"])
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, BundleContents, BundleContents]:
    output = tmp_path_factory.mktemp("collect") / request.param
    result = collect(output, request.param)
    assert result.exit_code == 0, result.output
    return request.param, read_bundle(output / "eager"), read_bundle(output / "graph")


@pytest.mark.timeout(300)
def test_bundles_are_complete(runs: tuple[str, BundleContents, BundleContents]) -> None:
    _, eager, graph = runs
    for run in (eager, graph):
        assert run.manifest.status == "complete"
        assert run.clean is not None
        assert len(run.clean.steps) == len(run.clean.back_to_back_ns) == ITERATIONS
        assert all(0 < row.launch_cpu_ns <= row.wall_ns for row in run.clean.steps)
        assert [part.step_count for part in run.clean.processes] == [
            ITERATIONS // PROCESSES
        ] * PROCESSES
        for part in run.clean.processes:
            assert part.cpu_loop_ns
            assert part.gpu is not None
            assert 0 < part.gpu.sm_mhz <= part.gpu.max_sm_mhz
        assert run.memory is not None
        steps = [e for e in events(run.replay_trace) if e.get("name", "").startswith(STEP)]
        assert sum(e["cat"] == "user_annotation" for e in steps) == TRACED
    assert eager.graphs == ()
    assert eager.memory is not None
    assert eager.memory.pools == ()
    assert graph.memory is not None
    assert graph.memory.pools
    assert graph.clean is not None
    (life,) = graph.clean.graphs
    assert life.nodes == len(graph.graphs[0].nodes)
    assert 0 < life.first_launch_cpu_ns <= life.first_launch_ns
    assert life.upload_ns


@pytest.mark.timeout(300)
def test_every_node_was_launched_in_the_capture(
    runs: tuple[str, BundleContents, BundleContents],
) -> None:
    _, _, graph = runs
    trace = events(graph.capture_trace)
    assert launches_inside(trace) == len(graph.graphs[0].nodes)
    names = [event.get("name", "") for event in trace]
    assert sum(name.startswith(CAPTURE) for name in names) >= 1
    assert any(name.startswith(MODULE) for name in names)
    sources = {name.removeprefix(SOURCE) for name in names if name.startswith(SOURCE)}
    assert sources
    assert all(source.startswith("collectors/workloads/") for source in sources)


@pytest.mark.timeout(300)
def test_graphs_have_the_shape_of_their_workload(
    runs: tuple[str, BundleContents, BundleContents],
) -> None:
    name, eager, graph = runs
    read = graph.graphs[0]
    kinds = Counter(node.kind for node in read.nodes)
    out_degree = Counter(edge.source for edge in read.edges)
    if name == "fork-join":
        assert kinds[NodeKind.MEMCPY] == 1
        assert kinds[NodeKind.MEMSET] >= 1
        in_degree = Counter(edge.target for edge in read.edges)
        roots = [node.index for node in read.nodes if node.index not in in_degree]
        assert max(len(roots), *out_degree.values()) == 3
        streams = {
            event["args"]["stream"]
            for event in events(graph.replay_trace)
            if event.get("cat") == "kernel"
        }
        assert len(streams) > 1
    else:
        assert len(read.edges) == len(read.nodes) - 1
        assert set(out_degree.values()) == {1}
    if name in ("mlp-train", "decode"):
        assert eager.clean is not None
        assert graph.clean is not None
        eager_wall = median(row.wall_ns for row in eager.clean.steps)
        graph_wall = median(row.wall_ns for row in graph.clean.steps)
        assert eager_wall > 1.5 * graph_wall


@pytest.mark.timeout(300)
def test_nodes_tell_the_memory_that_they_reach(
    runs: tuple[str, BundleContents, BundleContents],
) -> None:
    _, _, graph = runs
    nodes = graph.graphs[0].nodes
    assert all(node.operands for node in nodes if node.kind in (NodeKind.MEMCPY, NodeKind.MEMSET))
    kernels = [node for node in nodes if node.kind is NodeKind.KERNEL]
    known = [node.operands for node in kernels if node.operands]
    assert len(known) >= 0.95 * len(kernels)
    # Not one memory for all: what a node reaches is told apart from what others do.
    assert len(set(known)) > len(known) / 3


@pytest.mark.timeout(300)
def test_clean_launch_is_not_slowed_by_the_profiler(
    runs: tuple[str, BundleContents, BundleContents],
) -> None:
    _, _, graph = runs
    assert graph.clean is not None
    traced = [
        event["dur"] * 1e3
        for event in events(graph.replay_trace)
        if event.get("name") == "cudaGraphLaunch"
    ]
    clean = median(row.launch_cpu_ns for row in graph.clean.steps)
    assert clean < median(traced)


@pytest.mark.timeout(300)
def test_a_failing_capture_keeps_the_other_mode_and_its_cause(tmp_path: Path) -> None:
    output = tmp_path / "failing"
    result = collect(output, "sync-in-step")
    assert result.exit_code == 1
    assert read_bundle(output / "eager").manifest.status == "complete"
    failed = read_bundle(output / "graph").manifest
    assert failed.status == "failed"
    (failure,) = failed.failures
    assert "capturing" in failure.message
    source = Path(__file__).parents[2] / "collectors/workloads/sync_in_step.py"
    lines = source.read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if ".item())" in text)
    assert failure.location == f"collectors/workloads/sync_in_step.py:{line}"
    assert not [path for path in output.iterdir() if path.name.startswith(".")]


@pytest.mark.timeout(300)
def test_a_users_own_workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "def factory():\n"
        "    model = torch.nn.Linear(8, 8).cuda()\n"
        "    x = torch.ones(4, 8, device='cuda')\n"
        "    def step():\n"
        "        with torch.no_grad():\n"
        "            return model(x).relu_()\n"
        "    return step\n"
    )
    monkeypatch.chdir(tmp_path)
    result = collect(tmp_path / "out", "mine:factory")
    assert result.exit_code == 0, result.output
    graph = read_bundle(tmp_path / "out" / "graph")
    assert graph.manifest.workload.factory == "mine:factory"
    trace = events(graph.capture_trace)
    assert any(event.get("name") == f"{SOURCE}mine.py:7" for event in trace)


@pytest.mark.timeout(300)
def test_an_exhausted_gpu_is_a_failure_with_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "greedy.py").write_text(
        "import torch\ndef factory():\n    return lambda: torch.empty(1 << 42, device='cuda')\n"
    )
    monkeypatch.chdir(tmp_path)
    result = collect(tmp_path / "out", "greedy:factory")
    assert result.exit_code == 1
    (failure,) = read_bundle(tmp_path / "out" / "eager").manifest.failures
    assert failure.error == "OutOfMemoryError"
    assert failure.location == "greedy.py:3"
