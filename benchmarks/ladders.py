"""What the recording of one ladder foretells of others, beside what these came to when run.

    python -m benchmarks.ladders BASE OTHER [OTHER...]

Each is the folder of an experiment with one recorded server and the same requests. Prints predicted
and recorded values of each: GPU time of a request, time of a step outside graphs, sizes per second,
and memory by cudaMemGetInfo, inside and outside the pool.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.loop.family_report import LoopReport, build_loop_report
from graphviz_dash.analysis.metrics.loop_columns import CAPTURE
from graphviz_dash.features.ladder.analysis.ladder_data import (
    LadderData,
    build_problem,
    collect_sizes,
    estimate_times,
)
from graphviz_dash.features.ladder.analysis.ladder_inputs import build_ladder_data
from graphviz_dash.features.ladder.analysis.ladder_problem import LadderCost, compute_ladder_cost
from graphviz_dash.ingest.load import load_outlines
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Run
from graphviz_dash.units import format_bytes, format_ns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", type=Path)
    parser.add_argument("others", type=Path, nargs="+")
    options = parser.parse_args()
    _, report = recorded(options.base)
    base = build_ladder_data(report, report.families[0])
    assert not isinstance(base, Missing), base
    print("| ladder | GPU time of a request: foretold | measured | off by ", end="")
    for label in ("besides", "sizes a second", "memory"):
        print(f"| {label}: foretold | measured | off by ", end="")
    print("|\n|" + " --- |" * 13)
    for path in options.others:
        run, report = recorded(path)
        actual = measured(run, report)
        prediction = use_with(base, actual.ladder)
        time_ns = prediction.total_ns / len(base.requests)
        rate = float(base.requests.mean()) / (time_ns + (base.step_ns or 0.0)) * 1e9
        print(f"| {path.name} ({len(actual.ladder)} sizes) ", end="")
        for pair, headline in (
            ((time_ns, actual.replay_ns), format_ns),
            ((base.step_ns or 0.0, actual.besides_ns), format_ns),
            ((rate, actual.sizes_a_second), "{:,.0f}".format),
            ((prediction.memory_bytes, actual.memory_bytes), format_bytes),
        ):
            off = f"{pair[0] / pair[1] - 1:+.1%}" if pair[1] else "-"
            print(f"| {headline(pair[0])} | {headline(pair[1])} | {off} ", end="")
        print("|")


class Measured(Struct, frozen=True):
    """Means over the steps of the program's own loop."""

    ladder: tuple[int, ...]
    replay_ns: float
    """GPU time of a step, in ns: by the median of each size, or what a step without a graph took
    over the others."""
    besides_ns: float
    """Other time of a step, in ns."""
    sizes_a_second: float
    """Real sizes of the steps over the time from each to the next."""
    memory_bytes: int
    """What the device had less when the graphs were there: by what the pool took of it, and by what
    the driver says of the rest."""


def recorded(path: Path) -> tuple[Run, LoopReport]:
    """The run of the experiment, and its families, that of most steps first."""
    run = load_outlines(path)[0]
    report = build_loop_report(run)
    assert not isinstance(report, Missing), report
    return run, report


def measured(run: Run, report: LoopReport) -> Measured:
    family, columns = report.families[0], report.columns
    family_rows = np.flatnonzero((columns.family == family.index) & (columns.real > 0))
    timed_rows = columns.select_settled(family_rows[columns.kind[family_rows] != CAPTURE])
    period = columns.period_ns[timed_rows].astype(np.float64)
    replay = np.maximum(period - (family.step_ns or 0.0), 0.0)
    for member in family.members:
        if member.gpu is not None:
            served = columns.is_replay[timed_rows] & (columns.member[timed_rows] == member.index)
            replay[served] = member.gpu.median
    assert run.loop is not None
    outside = {cost.graph: cost.driver_bytes or 0 for cost in run.loop.graphs}
    added_bytes = sum(member.pool_growth_bytes or 0 for member in family.members)
    return Measured(
        ladder=tuple(sorted({member.size for member in family.members if member.size})),
        replay_ns=float(replay.mean()),
        besides_ns=float((period - replay).mean()),
        sizes_a_second=float(columns.real[timed_rows].sum() / period.sum() * 1e9),
        memory_bytes=added_bytes + sum(outside[graph] for graph in family.graphs),
    )


def use_with(data: LadderData, ladder: tuple[int, ...]) -> LadderCost:
    sizes = np.union1d(collect_sizes(data, data.requests), np.array(ladder))
    requests, counts = np.unique(data.requests, return_counts=True)
    return compute_ladder_cost(
        build_problem(data, estimate_times(data), sizes, requests, counts.astype(float)), ladder
    )


if __name__ == "__main__":
    main()
