"""What the recording of one ladder foretells of others, beside what these came to when run.

    python -m benchmarks.ladders BASE OTHER [OTHER...]

Each is the folder of an experiment with one recorded server, of the same requests. Prints a row for
each: sizes a second and memory as foretold from BASE and as recorded in OTHER.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from graphviz_dash.analysis.families.family_report import FamilyReport, LoopReport, loop_report
from graphviz_dash.analysis.families.ladder_data import LadderData, all_sizes, estimates, problem_of
from graphviz_dash.analysis.families.ladder_inputs import ladder_data
from graphviz_dash.analysis.families.ladder_problem import LadderUse, use_of
from graphviz_dash.ingest.load import load_loops
from graphviz_dash.model.absence import Missing
from graphviz_dash.units import format_bytes, significant


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", type=Path)
    parser.add_argument("others", type=Path, nargs="+")
    chosen = parser.parse_args()
    _, _, base = recorded(chosen.base)
    print(
        "| ladder | sizes a second: foretold | measured | off by "
        "| memory: foretold | measured | off by |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for path in chosen.others:
        _, family, data = recorded(path)
        foretold, own = use_with(base, data.today), use_with(data, data.today)
        rates = [rate(base, foretold), rate(data, own)]
        memory = [foretold.memory_bytes, measured_bytes(family)]
        cells = [
            f"{path.name} ({len(data.today)} sizes)",
            *(significant(value) for value in rates),
            f"{rates[0] / rates[1] - 1:+.1%}",
            *(format_bytes(value) for value in memory),
            f"{memory[0] / memory[1] - 1:+.1%}",
        ]
        print(f"| {' | '.join(cells)} |")


def recorded(path: Path) -> tuple[LoopReport, FamilyReport, LadderData]:
    """The loop of the experiment, its family of most steps, and what a ladder is chosen by."""
    report = loop_report(load_loops(path)[0])
    assert not isinstance(report, Missing), report
    data = ladder_data(report, report.families[0])
    assert not isinstance(data, Missing), data
    return report, report.families[0], data


def use_with(data: LadderData, ladder: tuple[int, ...]) -> LadderUse:
    """What ``ladder`` comes to for the requests of ``data``, by its times and costs."""
    sizes = np.union1d(all_sizes(data, data.requests), np.array(ladder))
    requests, counts = np.unique(data.requests, return_counts=True)
    return use_of(problem_of(data, estimates(data), sizes, requests, counts.astype(float)), ladder)


def rate(data: LadderData, use: LadderUse) -> float:
    """Sizes a second of all requests of ``data``."""
    return float(
        data.requests.sum() / (use.total_ns + (data.step_ns or 0) * len(data.requests)) * 1e9
    )


def measured_bytes(family: FamilyReport) -> int:
    """What the pool grew by, and the executables by their nodes."""
    return sum((m.pool_added_bytes or 0) + (m.executable_bytes or 0) for m in family.members)


if __name__ == "__main__":
    main()
