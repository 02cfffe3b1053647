from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.features.prediction.analysis.measured import select_attempt
from graphviz_dash.model.parallel import Verdict
from graphviz_dash.model.run import ExecutionMode
from graphviz_dash.planning.proof import compute_node_ranges
from tests.gpu.test_ranks import two_ranks

if TYPE_CHECKING:
    import torch

try:
    from tests.gpu.hazards import HAZARDS, hazard_results
except ImportError:
    HAZARDS = {}

REFUSED = {
    "a call on the host": "two eager steps on the same inputs differ",
    "streams of its own": "uses its own streams",
}


@pytest.fixture
def _on_gpu() -> Iterator[None]:
    import torch

    torch.set_default_device("cuda")
    yield
    torch.set_default_device(None)


@pytest.mark.usefixtures("_on_gpu")
@pytest.mark.parametrize("name", HAZARDS)
def test_a_hazard_is_ordered_or_refused(name: str) -> None:
    import torch

    import collectors
    from collectors.parallel.capture import RefusedError

    torch.manual_seed(0)
    step = HAZARDS[name]()
    if name in REFUSED:
        with pytest.raises(RefusedError, match=REFUSED[name]):
            collectors.parallel_graph(step)
        return
    graph = collectors.parallel_graph(step, memory_factor=None)
    torch.manual_seed(0)
    twin = HAZARDS[name]()
    for _ in range(3):
        twin()
    for seed in range(4):
        torch.manual_seed(seed)
        expected = hazard_results(twin())
        torch.manual_seed(seed)
        graph.replay()
        torch.cuda.synchronize()
        for eager, replayed in zip(expected, hazard_results(graph.result), strict=True):
            torch.testing.assert_close(eager, replayed, rtol=0, atol=0)


def chains() -> tuple[list[torch.nn.Module], list[torch.Tensor]]:
    import torch

    models = [
        torch.nn.Sequential(*[torch.nn.Linear(128, 128) for _ in range(6)]).cuda().eval()
        for _ in range(4)
    ]
    return models, [torch.randn(16, 128, device="cuda") for _ in models]


def test_independent_chains_run_side_by_side() -> None:
    import torch

    import collectors

    models, inputs = chains()

    def step() -> object:
        with torch.no_grad():
            return [model(x) for model, x in zip(models, inputs, strict=True)]

    plan = collectors.parallel_graph(step).plan
    assert plan.verdict is Verdict.FASTER
    assert plan.selected_streams > 1
    assert plan.check.bitwise_replays == plan.check.replays >= 20
    chosen = select_attempt(plan)
    assert chosen is not None
    assert chosen.memory_bytes is not None
    assert plan.memory_limit_bytes is not None
    assert chosen.memory_bytes <= plan.memory_limit_bytes


def test_a_chain_stays_a_line_and_says_why() -> None:
    import torch

    import collectors

    (model, *_), (x, *_) = chains()

    def step() -> object:
        with torch.no_grad():
            return model(x)

    plan = collectors.parallel_graph(step).plan
    assert (plan.selected_streams, plan.verdict) == (1, Verdict.CHAIN)


def test_products_that_are_chosen_for_a_large_workspace_run_on_several_streams() -> None:
    import torch

    import collectors

    cells = [torch.nn.LSTMCell(256, 256).cuda() for _ in range(4)]
    inputs = torch.randn(8, 16, 256, device="cuda")

    @torch.no_grad()
    def step() -> object:
        zero = torch.zeros(16, 256, device="cuda")
        states = [(zero, zero) for _ in cells]
        for x in inputs:
            below = x
            for at, cell in enumerate(cells):
                states[at] = cell(below, states[at])
                below = states[at][0]
        return states

    plan = collectors.parallel_graph(step).plan
    if not any(operator.needs_wide_stream for operator in plan.operators):
        pytest.skip("this cuBLAS runs the same kernels with little workspace")
    assert plan.workspace_bytes is not None
    assert plan.selected_streams > 1
    assert plan.check.bitwise_replays == plan.check.replays


def test_kernels_that_no_operator_shows_keep_their_order() -> None:
    import torch

    import collectors

    x = torch.ones(1 << 20, device="cuda")

    def step() -> object:
        a = torch.tanh(x)
        torch.cuda._sleep(20_000)
        return a, torch.sin(x)

    plan = collectors.parallel_graph(step).plan
    unnamed = [operator for operator in plan.operators if not operator.name]
    assert [(operator.nodes, operator.opaque) for operator in unnamed] == [(1, True)]


@pytest.mark.timeout(400)
def test_the_mode_is_collected(tmp_path: Path) -> None:
    from collectors.collection.cli import collect

    options = ["--iterations=6", "--processes=1", "--traced-iterations=3", f"--output={tmp_path}"]
    arguments = ["--workload=decode", "--modes=graph,parallel", *options]
    result = CliRunner().invoke(collect, arguments)
    assert result.exit_code == 0, result.output
    run = read_bundle(tmp_path / "parallel")
    assert run.manifest.mode is ExecutionMode.PARALLEL
    assert run.parallel is not None
    (graph,) = run.graphs
    assert compute_node_ranges(run.parallel.operators)[-1].stop == len(graph.nodes)
    assert run.parallel.check.replays >= 20


@pytest.mark.timeout(500)
def test_ranks_plan_their_collectives_together(tmp_path: Path) -> None:
    from collectors.workloads.tp_transformer import LAYERS

    ranks = two_ranks(tmp_path / "x", "--modes=parallel", "--processes=1")
    assert not any(code for code, _ in ranks), ranks
    plans = [read_bundle(tmp_path / "x" / f"parallel-rank{rank}").parallel for rank in range(2)]
    first, second = plans
    assert first is not None
    assert second is not None
    assert (first.selected_streams, first.streams) == (second.selected_streams, second.streams)
    for plan in (first, second):
        talking = [at for at, operator in enumerate(plan.operators) if operator.is_collective]
        assert len(talking) == 4 * LAYERS
        assert {plan.streams[at] for at in talking} == {0}
        assert not any(plan.operators[at].opaque for at in talking)
        assert plan.check.bitwise_replays == plan.check.replays
