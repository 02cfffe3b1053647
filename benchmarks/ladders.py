"""What the recording of one ladder foretells of others, beside what these came to when run.

    python -m benchmarks.ladders BASE OTHER [OTHER...]

Each is the folder of an experiment with one recorded server, of the same requests. Prints a row for
each, as foretold from BASE and as recorded in OTHER: the GPU time of a request (with what those
without a graph took), what a step takes besides, which no ladder changes, sizes a second, and
memory as cudaMemGetInfo says it: what the pool took of the device, and what went outside of it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from graphviz_dash.analysis.families.family_report import FamilyReport, loop_report
from graphviz_dash.analysis.families.ladder_data import LadderData, all_sizes, estimates, problem_of
from graphviz_dash.analysis.families.ladder_inputs import ladder_data
from graphviz_dash.analysis.families.ladder_problem import LadderUse, use_of
from graphviz_dash.ingest.load import load_outlines
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Run
from graphviz_dash.units import format_bytes, format_ns


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", type=Path)
    parser.add_argument("others", type=Path, nargs="+")
    chosen = parser.parse_args()
    _, _, base = recorded(chosen.base)
    print("| ladder | GPU time of a request: foretold | measured | off by ", end="")
    for what in ("besides", "sizes a second", "memory"):
        print(f"| {what}: foretold | measured | off by ", end="")
    print("|\n|" + " --- |" * 13)
    for path in chosen.others:
        run, family, data = recorded(path)
        foretold, own = use_with(base, data.today), use_with(data, data.today)
        times = [use.total_ns / len(data.requests) for use in (foretold, own)]
        besides = [base.step_ns or 0.0, data.step_ns or 0.0]
        size = float(data.requests.mean())
        rates = [size / (time + more) * 1e9 for time, more in zip(times, besides, strict=True)]
        print(f"| {path.name} ({len(data.today)} sizes) ", end="")
        for pair, worded in (
            (times, format_ns),
            (besides, format_ns),
            (rates, "{:,.0f}".format),
            ([foretold.memory_bytes, measured_bytes(run, family)], format_bytes),
        ):
            off = f"{pair[0] / pair[1] - 1:+.1%}" if pair[1] else "-"
            print(f"| {worded(pair[0])} | {worded(pair[1])} | {off} ", end="")
        print("|")


def recorded(path: Path) -> tuple[Run, FamilyReport, LadderData]:
    """The run of the experiment, its family of most steps, and what a ladder is chosen by."""
    run = load_outlines(path)[0]
    report = loop_report(run)
    assert not isinstance(report, Missing), report
    data = ladder_data(report, report.families[0])
    assert not isinstance(data, Missing), data
    return run, report.families[0], data


def use_with(data: LadderData, ladder: tuple[int, ...]) -> LadderUse:
    """What ``ladder`` comes to for the requests of ``data``, by its times and costs."""
    sizes = np.union1d(all_sizes(data, data.requests), np.array(ladder))
    requests, counts = np.unique(data.requests, return_counts=True)
    return use_of(problem_of(data, estimates(data), sizes, requests, counts.astype(float)), ladder)


def measured_bytes(run: Run, family: FamilyReport) -> int:
    """What the device had less when the graphs were there: by what the pool took of it, and by what
    the driver says of the rest."""
    assert run.loop is not None
    outside = {cost.graph: cost.outside_bytes or 0 for cost in run.loop.graphs}
    return sum(member.pool_added_bytes or 0 for member in family.members) + sum(
        outside[graph] for graph in family.graphs
    )


if __name__ == "__main__":
    main()
