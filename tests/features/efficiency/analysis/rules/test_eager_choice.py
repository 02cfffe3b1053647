from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.nodes.whole_graph import expand_graph
from graphviz_dash.analysis.step_comparison.work_pairs import PairKind, WorkPairs
from graphviz_dash.features.efficiency.analysis.report import (
    EfficiencyReport,
    measure_run_efficiency,
)
from graphviz_dash.features.efficiency.analysis.rules.eager_choice import list_eager_calls
from graphviz_dash.features.efficiency.analysis.rules.search import Remedy
from graphviz_dash.features.efficiency.narrative import describe_efficiency, format_advice_title
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Run
from tests.samples import compared_sample

PRODUCT = 2
"""Kernel of the first linear layer in the eager step, as in the graph."""


def get_pairs(mode: str) -> tuple[Run, WorkPairs]:
    run = compared_sample("mlp-train")[mode]
    assert not isinstance(run.waterfall, Missing)
    return run.run, run.waterfall.pairs


def measure(run: Run, pairs: WorkPairs) -> EfficiencyReport:
    report = measure_run_efficiency(run, pairs=pairs)
    assert isinstance(report, EfficiencyReport)
    return report


def change_kernel(pairs: WorkPairs, factor: float) -> WorkPairs:
    """Let the eager step run another kernel for the first product, ``factor`` times as long."""
    duration = np.array(pairs.before.duration)
    duration[PRODUCT] = int(duration[PRODUCT] * factor)
    rows = tuple(
        replace(row, kind=PairKind.OTHER) if PRODUCT in row.before else row for row in pairs.rows
    )
    return WorkPairs(replace(pairs.before, duration=duration), pairs.after, rows)


def test_a_faster_eager_kernel_is_recommended() -> None:
    run, pairs = get_pairs("graph")
    changed = change_kernel(pairs, 0.5)
    report = measure(run, changed)
    (advice,) = report.advice
    assert advice.remedy is Remedy.KERNEL
    (group,) = advice.groups
    nodes = [
        report.items[position].index
        for index in group
        for position in report.limits[index].unit.items
    ]
    # The call has four kernels, one of which differs.
    assert nodes == [0, 1, 2, 3]
    rows = expand_graph(run, "graph-0").table.rows
    graph_ns = sum(rows[node].times.median_ns or 0.0 for node in nodes)
    eager_ns = sum(changed.before.duration[:4].tolist())
    assert advice.saving_ns == pytest.approx(graph_ns - eager_ns)
    assert 0 < advice.low_ns < advice.saving_ns < advice.high_ns
    assert format_advice_title(advice) == "the eager run's kernels for addmm (4 kernels)"
    # The samples' GPU has no measured limits; the times of both runs are measured.
    assert isinstance(report.choice, Missing)
    assert "could go" in describe_efficiency(report)


@pytest.mark.parametrize("factor", [0.95, 1.0, 2.0])
def test_an_equal_or_slower_eager_kernel_is_not(factor: float) -> None:
    run, pairs = get_pairs("graph")
    assert measure(run, change_kernel(pairs, factor)).advice == ()


def test_the_same_kernel_is_not_a_choice() -> None:
    """Times of one kernel differ between steps for other reasons."""
    run, pairs = get_pairs("graph")
    same = WorkPairs(change_kernel(pairs, 0.5).before, pairs.after, pairs.rows)
    assert measure(run, same).advice == ()


@pytest.mark.parametrize("mode", ["graph", "callables", "partial", "compile"])
def test_operators_that_are_split_differently_are_compared_as_a_whole(mode: str) -> None:
    """torch.compile replaces four kernels of a product by three: one of them is slower than its
    partner, all together are faster."""
    run, pairs = get_pairs(mode)
    for graph in run.graphs:
        report = measure_run_efficiency(run, graph.id, pairs=pairs)
        assert isinstance(report, EfficiencyReport)
        assert report.advice == ()


def test_kernels_without_shapes_belong_to_the_call_of_their_neighbours() -> None:
    _, pairs = get_pairs("compile")
    calls = list_eager_calls(pairs.before.items)
    assert len(set(calls[:4])) == 1
    assert len(set(calls[:6])) == 3
