from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from collectors.collection.collection import SUPPORTED
from graphviz_dash.bundle.read import BundleContents, read_bundle
from graphviz_dash.errors import GraphvizDashError
from graphviz_dash.model.graph import NodeKind
from graphviz_dash.model.marks import CAPTURE
from graphviz_dash.model.run import ExecutionMode
from tests.gpu.test_collect import COPIES, LAUNCHES, events

MODES = ("callables", "partial", "compile")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, BundleContents]:
    from collectors.collection.cli import collect

    output = tmp_path_factory.mktemp("modes") / "mlp-train"
    result = CliRunner().invoke(
        collect,
        [
            "--workload=mlp-train",
            f"--modes={','.join(MODES)}",
            f"--output={output}",
            "--iterations=12",
            "--processes=1",
            "--traced-iterations=3",
        ],
    )
    assert result.exit_code == 0, result.output
    return {mode: read_bundle(output / mode) for mode in MODES}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("mode", MODES)
def test_every_capture_is_a_graph_with_its_costs(
    runs: dict[str, BundleContents], mode: str
) -> None:
    run = runs[mode]
    assert run.clean is not None
    roots = [graph for graph in run.graphs if graph.parent is None]
    assert {life.graph for life in run.clean.graphs} == {graph.id for graph in roots}
    assert {life.graph: life.nodes for life in run.clean.graphs} == {
        graph.id: len(graph.nodes) for graph in roots
    }
    # Four linear layers: forward and backward of each, or of all together.
    assert len(roots) == {"callables": 2, "partial": 8, "compile": 2}[mode]
    trace = events(run.replay_trace)
    launches = Counter(event.get("name") for event in trace)
    assert launches["cudaGraphLaunch"] % len(roots) == 0
    assert launches["cudaGraphLaunch"] >= 3 * len(roots)
    # The optimizer stays outside.
    assert launches["cudaLaunchKernel"] > 0


@pytest.mark.timeout(400)
@pytest.mark.parametrize("mode", ["callables", "partial"])
def test_the_warm_up_before_a_capture_is_not_traced(
    runs: dict[str, BundleContents], mode: str
) -> None:
    trace = events(runs[mode].capture_trace)
    first = min(event["ts"] for event in trace if event.get("name") == "cudaStreamBeginCapture")
    # torch sets its random state up; make_graphed_callables runs each module three times before.
    before = [event for event in trace if event.get("name") in LAUNCHES and event["ts"] < first]
    assert len(before) <= 2


@pytest.mark.timeout(400)
@pytest.mark.parametrize("mode", MODES)
def test_the_launches_of_each_capture_are_its_nodes(
    runs: dict[str, BundleContents], mode: str
) -> None:
    run = runs[mode]
    trace = events(run.capture_trace)
    launched = [event["ts"] for event in trace if event.get("name") in LAUNCHES + COPIES]
    for graph in run.graphs:
        (span,) = [
            event
            for event in trace
            if event.get("name") == CAPTURE + graph.id and event["cat"] == "user_annotation"
        ]
        # torch sets up its random state inside the range, before the stream captures.
        begin, end = (
            next(
                event["ts"]
                for event in trace
                if event.get("name") == name and span["ts"] < event["ts"] < span["ts"] + span["dur"]
            )
            for name in ("cudaStreamBeginCapture", "cudaStreamEndCapture")
        )
        inside = sum(begin < ts < end for ts in launched)
        kinds = Counter(node.kind for node in graph.nodes)
        assert inside == kinds[NodeKind.KERNEL] + kinds[NodeKind.MEMCPY] + kinds[NodeKind.MEMSET]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", SUPPORTED)
def test_a_mode_computes_what_eager_computes(mode: ExecutionMode) -> None:
    import torch

    from collectors.passes.modes import COMPILED, compile_modules, prepare_mode

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    model.cuda()
    inputs = torch.randn(8, 16, device="cuda")
    result = torch.zeros((), device="cuda")

    def step() -> None:
        for parameter in model.parameters():
            parameter.grad = None
        loss = model(inputs).square().mean()
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                assert parameter.grad is not None
                result.add_(parameter.grad.abs().sum())

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        step()
    torch.cuda.synchronize()
    expected = float(result)
    assert expected > 0
    if mode in COMPILED:
        compile_modules(step, COMPILED[mode])
    iterate = prepare_mode(mode, step)
    for _ in range(3):
        result.zero_()
        iterate()
        torch.cuda.synchronize()
        assert float(result) == pytest.approx(expected, rel=1e-3)


def test_the_recorder_leaves_torch_as_it_was() -> None:
    import torch

    from collectors.passes.capture_listener import record_captures

    class Count:
        def __init__(self) -> None:
            self.told: list[str] = []

        def on_capture_start(self, graph_id: str) -> None:
            self.told.append(f"{graph_id} begins")

        def on_capture_end(self, graph_id: str, handle: int, capture_ns: int) -> None:
            self.told.append(f"{graph_id} captured")

        def on_instantiation(self, graph_id: str, handle: int, instantiate_ns: int) -> None:
            self.told.append(f"{graph_id} instantiated")

        def on_first_launch(self, graph_id: str, call_ns: int, complete_ns: int) -> None:
            self.told.append(f"{graph_id} launched")

    original = torch.cuda.CUDAGraph
    count = Count()
    data = torch.zeros(4, device="cuda")
    with record_captures(count):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            data.add_(1)
        for _ in range(5):
            graph.replay()
    assert torch.cuda.CUDAGraph is torch.cuda.graphs.CUDAGraph is original
    torch.cuda.synchronize()
    assert data.tolist() == [5.0] * 4
    assert count.told == [
        f"graph-0 {what}" for what in ("begins", "captured", "instantiated", "launched")
    ]


def test_modules_on_several_streams_are_not_compiled() -> None:
    from collectors.passes.modes import GRAPHED, compile_modules
    from collectors.workloads.fork_join import fork_join

    with pytest.raises(GraphvizDashError, match="on 3 streams"):
        compile_modules(fork_join(), GRAPHED)


@pytest.mark.timeout(400)
def test_compiled_without_graphs_it_launches_none(tmp_path: Path) -> None:
    from collectors.collection.cli import collect

    options = ["--iterations=6", "--processes=1", "--traced-iterations=3", f"--output={tmp_path}"]
    arguments = ["--workload=mlp-train", "--modes=eager,compile-default", *options]
    result = CliRunner().invoke(collect, arguments)
    assert result.exit_code == 0, result.output
    eager, compiled = (read_bundle(tmp_path / name) for name in ("eager", "compile-default"))
    assert compiled.manifest.status == "complete"
    assert compiled.clean is not None
    assert (compiled.graphs, compiled.clean.graphs) == ((), ())
    names = [[event.get("name") for event in events(run.replay_trace)] for run in (eager, compiled)]
    assert "cudaGraphLaunch" not in names[1]
    # Fused: fewer kernels do the step.
    assert 0 < _launches(names[1]) < _launches(names[0])


def _launches(names: list[object]) -> int:
    return sum(name in LAUNCHES for name in names)
