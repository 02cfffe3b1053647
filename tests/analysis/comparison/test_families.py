"""Every metric of a run: its formula, or why it is absent."""

from __future__ import annotations

import msgspec

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.comparison.relative_metrics import COMPILE_METRICS
from graphviz_dash.analysis.comparison.result import RunComparison
from graphviz_dash.analysis.metrics.registry import METRICS, Source
from graphviz_dash.analysis.metrics.run_metrics import THROUGHPUT
from tests.analysis.eager_and_graph import both, eager, graphed
from tests.analysis.frames import (
    GRAPH,
    LIFE,
    clean_timings,
    failure,
    make_experiment,
    make_run,
)

ELSEWHERE = {
    *(
        metric.id
        for metric in METRICS.values()
        if metric.source in (Source.MEMORY_PASS, Source.RECORDED, Source.PREDICTED)
    ),
    *THROUGHPUT,
    *COMPILE_METRICS,
    *("cpu_loop", "cpu_slowdown", "sm_clock"),
}
"""Metrics of facts that these runs lack; test_memory, test_throughput, test_recorded, test_scored,
test_compile_parts and test_machine_state have those."""


def values(run: RunComparison) -> dict[str, float | None]:
    return {figure.metric.id: figure.value for figure in run.metrics}


class TestFigures:
    def test_each_formula(self) -> None:
        found = values(both()["graph"])
        busy = 75_000
        once = 2_000_000 + 300_000 + 200_000 - 125_000
        assert found == {
            "step_time": 125_000,
            "step_interval": 100_000,
            "launch_cpu_time": 5_000,
            "speedup": 8,
            "speedup_interval": 10,
            "step_saving": 875_000,
            "capture_time": 2_000_000,
            "instantiate_time": 300_000,
            "upload_time": 100_000,
            "first_launch_cpu_time": 90_000,
            "first_launch_time": 200_000,
            "one_off_cost": once,
            "break_even": 3,
            "private_pool": 32 << 20,
            "allocated": 0,
            "reserved": 109051904,
            "peak_reserved": 104 << 20,
            "peak_reserved_change": 4 << 20,
            "peak_allocated": 52 << 20,
            "traced_step_time": 150_000,
            "observer_effect": 1.2,
            "gpu_busy": busy,
            "self_cpu_time": 4,  # the launch and the final synchronisation, 2 ns each
            "busy_fraction": 0.5,
            "busy_of_clean": busy / 125_000,
            "concurrency": 1,
            "kernels": 4,
            "copies": 0,
            "sets": 0,
            "launches": 1,
            "graph_launches": 1,
            "graph_work": 4,
            "graph_work_share": 1,
            "graph_time_share": 1,
            # Before the first kernel 88 ns and three times 10 between them in either run; in eager
            # 6 until the first launch (12 ns, scaled by 950,000 over 1,999,990) and 874,876 after
            # the last kernel, until the call of the step returns.
            "gaps_removed": 874_882,
            "kernel_change": 0,
            "copy_change": 0,
            "overlap_change": 0,
            "synchronisation_removed": 0,
            "rank_wait_removed": None,
            "remainder": 118,
            "graphs": 1,
            "graph_nodes": 4,
            "graph_edges": 3,
            **dict.fromkeys(ELSEWHERE),
        }

    def test_eager_has_what_eager_can_have(self) -> None:
        found = values(both()["eager"])
        assert found["launches"] == 4
        assert found["private_pool"] == 0
        assert {metric for metric, value in found.items() if value is None} == {
            *("speedup", "speedup_interval", "step_saving", "break_even", "peak_reserved_change"),
            *("gaps_removed", "kernel_change", "copy_change", "overlap_change"),
            *(
                "synchronisation_removed",
                "rank_wait_removed",
                "remainder",
                "capture_time",
                "instantiate_time",
                "upload_time",
            ),
            "first_launch_cpu_time",
            *("first_launch_time", "one_off_cost", "graphs", "graph_nodes", "graph_edges"),
            *("graph_work", "graph_work_share", "graph_time_share"),
            *ELSEWHERE,
        }

    def test_every_run_has_every_metric_with_a_value_or_a_reason(self) -> None:
        odd = make_experiment(
            eager(trace=None, memory=None),
            graphed(clean=None, failures=(failure(),)),
            make_run("compile", clean=clean_timings([])),
        )
        for run in (*both().runs, *compare_runs(odd).runs):
            assert [figure.metric.id for figure in run.metrics] == list(METRICS)
            for figure in run.metrics:
                assert (figure.value is None) != (figure.missing is None), figure

    def test_steps_and_spreads_are_of_the_series(self) -> None:
        run = eager(clean=clean_timings([100, 200, 300, 400, 500], launch=50))
        found = compare_runs(make_experiment(run)).runs[0]["step_time"]
        assert found.value == 300
        assert found.spread is not None
        assert (found.spread.low, found.spread.high, found.spread.samples) == (200, 400, 5)

    def test_several_graphs_add_up(self) -> None:
        second = msgspec.structs.replace(LIFE, graph="graph-1")
        clean = clean_timings([125_000] * 40, lives=(LIFE, second))
        found = compare_runs(make_experiment(eager(), graphed(clean=clean)))["graph"]
        assert found["capture_time"].value == 4_000_000
        assert found["one_off_cost"].value == 2 * (2_000_000 + 300_000 + 200_000) - 125_000

    def test_an_upload_that_is_unknown_is_absent_not_zero(self) -> None:
        life = msgspec.structs.replace(LIFE, upload_ns=None)
        clean = clean_timings([125_000] * 40, lives=(life,))
        found = compare_runs(make_experiment(eager(), graphed(clean=clean)))["graph"]
        assert found["upload_time"].missing.reason == "the bundle lacks it for some graphs"
        assert found["one_off_cost"].value == 2_375_000

    def test_bodies_are_no_graphs_of_their_own(self) -> None:
        body = msgspec.structs.replace(GRAPH, id="graph-0.1", parent=("graph-0", 2))
        found = compare_runs(make_experiment(graphed(graphs=(GRAPH, body)))).runs[0]
        assert (found["graphs"].value, found["graph_nodes"].value) == (1, 6)
