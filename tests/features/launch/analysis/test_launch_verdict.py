from __future__ import annotations

import pytest

from graphviz_dash.bundle.launch import read_launch
from graphviz_dash.features.launch.analysis.launch_costs import Timing, analyze_launch_costs
from graphviz_dash.features.launch.analysis.launch_verdict import (
    LaunchVerdict,
    Verdict,
    judge_launch,
)
from graphviz_dash.features.launch.analysis.own_graphs import list_program_graphs
from graphviz_dash.features.launch.narrative import (
    describe_own_graph,
    describe_own_graphs,
    summarize_verdicts,
)
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.graph import NodeKind
from graphviz_dash.model.launch import LaunchMeasure
from tests.analysis.launches import lines, recording
from tests.samples import SAMPLES

# A launch of a chain takes 2 µs and a nanosecond a node.
COSTS = analyze_launch_costs(recording(*lines(lambda n: 2000 + n)))


def judged(took: list[int], kinds: dict[NodeKind, int]) -> LaunchVerdict | Missing:
    timing = Timing.from_values(took)
    assert timing is not None
    return judge_launch(kinds, 1, timing, "mine", COSTS)


@pytest.mark.parametrize(
    ("took", "verdict"),
    [
        ([2100] * 9, Verdict.EXPECTED),
        ([9000] * 9, Verdict.SLOWER),
        ([900] * 9, Verdict.FASTER),
        ([1000, 9000, 9000], Verdict.SLOWER),
        ([500, 500, 9000, 9000, 9000], Verdict.INCONCLUSIVE),
    ],
)
def test_the_verdict(took: list[int], verdict: Verdict) -> None:
    found = judged(took, {NodeKind.KERNEL: 100})
    assert isinstance(found, LaunchVerdict)
    assert found.verdict is verdict
    assert found.predicted_ns == pytest.approx(2100, rel=0.02)
    assert found.ratio == pytest.approx(sorted(took)[len(took) // 2] / 2100, rel=0.02)
    assert found.reference_ratios.low == pytest.approx(1, abs=0.1)


def test_node_kinds_without_a_synthetic_graph_are_named() -> None:
    found = judged([2100], {NodeKind.KERNEL: 99, NodeKind.HOST: 1})
    assert isinstance(found, Missing)
    assert found.reason == "mine has no graph that measures the cost of Host nodes"


def test_the_answer_on_a_recorded_step() -> None:
    """318 kernels and four sets in a line, on the GPU of the recording."""
    experiment = load_experiment(SAMPLES / "transformer-train", traces=False)
    costs = analyze_launch_costs(read_launch(SAMPLES / "launch-h200"))
    (own,) = list_program_graphs(experiment, {"launch-h200": costs})
    found = own.verdict
    assert isinstance(found, LaunchVerdict)
    chain = costs.lines[LaunchMeasure.REPEAT_LAUNCH_CPU].evaluate(322)
    assert found.predicted_ns == pytest.approx(chain + 4 * costs.others["Memset"].ns)
    assert found.reference_ratios.low <= found.ratio <= (found.reference_ratios.high or 0)
    assert summarize_verdicts([own]).startswith(
        "The repeat launch is as fast as expected: graph-0 of"
    )
    assert "graphs of launch-h200 had for the same numbers of nodes" in describe_own_graph(own)


def test_several_graphs_are_summarized_as_one_sentence() -> None:
    experiment = load_experiment(SAMPLES / "mlp-train", traces=False)
    costs = analyze_launch_costs(read_launch(SAMPLES / "launch-h200"))
    summary = summarize_verdicts(list_program_graphs(experiment, {"launch-h200": costs}))
    assert summary.startswith(
        "Repeat launches: 6 graphs are as fast as expected; 5 graphs are inconclusive; "
        "2 graphs are unknown ("
    )
    assert summary.count(":") == 1


def test_the_reason_for_a_missing_verdict_is_said_once() -> None:
    experiment = load_experiment(SAMPLES / "all-nodes", traces=False)
    costs = analyze_launch_costs(read_launch(SAMPLES / "launch-h200"))
    graphs = list_program_graphs(experiment, {"launch-h200": costs})
    said = describe_own_graphs(graphs, 3)
    assert said[0].startswith("No expected launch cost for comparison: launch-h200 ")
    assert said[1].endswith("No expected cost for comparison.")
