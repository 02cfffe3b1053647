"""What the recording of one ladder foretells of others, beside what these came to when run.

    python -m benchmarks.ladders BASE OTHER [OTHER...]

Each is the folder of an experiment with one recorded server, of the same requests. Prints a row for
each, as foretold from BASE and as recorded in OTHER: the GPU time of a request (with what those
without a graph took), what a step takes besides, which no ladder changes, and memory.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from graphviz_dash.analysis.families.family_report import FamilyReport, LoopReport, loop_report
from graphviz_dash.analysis.families.ladder_data import LadderData, all_sizes, estimates, problem_of
from graphviz_dash.analysis.families.ladder_inputs import ladder_data
from graphviz_dash.analysis.families.ladder_problem import LadderUse, use_of
from graphviz_dash.ingest.load import load_outlines
from graphviz_dash.model.absence import Missing
from graphviz_dash.units import format_bytes, format_ns


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", type=Path)
    parser.add_argument("others", type=Path, nargs="+")
    chosen = parser.parse_args()
    _, _, base = recorded(chosen.base)
    print(
        "| ladder | GPU time of a request: foretold | measured | off by | besides, from BASE "
        "| measured | off by | memory: foretold | measured | off by |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for path in chosen.others:
        _, family, data = recorded(path)
        foretold, own = use_with(base, data.today), use_with(data, data.today)
        times = [use.total_ns / len(data.requests) for use in (foretold, own)]
        besides = [base.step_ns or 0.0, data.step_ns or 0.0]
        memory = [foretold.memory_bytes, measured_bytes(family)]
        cells = [
            f"{path.name} ({len(data.today)} sizes)",
            *(format_ns(value) for value in times),
            f"{times[0] / times[1] - 1:+.1%}",
            *(format_ns(value) for value in besides),
            f"{besides[0] / besides[1] - 1:+.1%}",
            *(format_bytes(value) for value in memory),
            f"{memory[0] / memory[1] - 1:+.1%}",
        ]
        print(f"| {' | '.join(cells)} |")


def recorded(path: Path) -> tuple[LoopReport, FamilyReport, LadderData]:
    """The loop of the experiment, its family of most steps, and what a ladder is chosen by."""
    report = loop_report(load_outlines(path)[0])
    assert not isinstance(report, Missing), report
    data = ladder_data(report, report.families[0])
    assert not isinstance(data, Missing), data
    return report, report.families[0], data


def use_with(data: LadderData, ladder: tuple[int, ...]) -> LadderUse:
    """What ``ladder`` comes to for the requests of ``data``, by its times and costs."""
    sizes = np.union1d(all_sizes(data, data.requests), np.array(ladder))
    requests, counts = np.unique(data.requests, return_counts=True)
    return use_of(problem_of(data, estimates(data), sizes, requests, counts.astype(float)), ladder)


def measured_bytes(family: FamilyReport) -> int:
    """What the pool grew by, and the executables by their nodes."""
    return sum((m.pool_added_bytes or 0) + (m.executable_bytes or 0) for m in family.members)


if __name__ == "__main__":
    main()
