"""An eager run and one with a graph, of known truth, for tests of comparisons."""

from __future__ import annotations

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.model.run import Run
from tests.analysis.frames import (
    LIFE,
    clean_timings,
    make_experiment,
    make_run,
    pools,
    steps_trace,
)
from tests.analysis.scenes import graph_of, kernel

WORK = [("gemm", 40_000), ("elementwise_kernel", 20_000), ("nccl", 10_000), ("odd", 5_000)]


def eager(**changes: object) -> Run:
    parts = {
        "clean": clean_timings([1_000_000] * 40, launch=950_000),
        "trace": steps_trace(6, 2_000_000, WORK, graph=False),
        "memory": pools(100 << 20),
    }
    return make_run("eager", **(parts | changes))  # type: ignore[arg-type]


def graphed(**changes: object) -> Run:
    parts = {
        "clean": clean_timings([125_000] * 40, intervals=[100_000] * 40, lives=(LIFE,)),
        "trace": steps_trace(6, 150_000, WORK, graph=True),
        "memory": pools(104 << 20, 30 << 20, 2 << 20),
        "graphs": (graph_of([kernel(index, name) for index, (name, _) in enumerate(WORK)]),),
    }
    return make_run("graph", **(parts | changes))  # type: ignore[arg-type]


def both() -> Comparison:
    return compare_runs(make_experiment(eager(), graphed()))
