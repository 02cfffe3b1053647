"""Print how alignment agrees with node ids, as the Markdown table of
evaluation/reports/2026-11-21-attribution-agreement.md.

    python -m evaluation.agreement FOLDER...

reads every run under the folders that was collected with --node-ids. The exit code is 1 when a run
is below its goal (99.9% for graphs of one stream, 98% for fork and join) and names no cause.
"""

from __future__ import annotations

import sys
from pathlib import Path

from graphviz_dash.analysis.replays.alignment_accuracy import (
    GOAL_FORK_JOIN,
    GOAL_LINE,
    Agreement,
    measure_agreement,
)
from graphviz_dash.ingest.load import find_experiments, load_experiment
from graphviz_dash.model.run import Run

HEAD = (
    "| workload | mode | graphs | shape | rows | agreement | by confidence | misses |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |"
)


def line(run: Run, agreement: Agreement) -> str:
    scores_text = "; ".join(
        f"{confidence:.2f}: {agreeing / rows:.2%} of {rows:,}"
        for confidence, (rows, agreeing) in sorted(agreement.by_confidence.items(), reverse=True)
    )
    misses = "; ".join(f"{count:,} {miss.value}" for miss, count in agreement.misses.items())
    roots = sum(graph.parent is None for graph in run.graphs)
    cells = (
        f"`{run.manifest.workload.name}`",
        f"`{run.mode.value}`",
        f"{roots:,}",
        "fork and join" if agreement.fork_join else "one line",
        f"{agreement.rows:,}",
        "–" if agreement.share is None else f"{agreement.share:.2%}",
        scores_text,
        misses or "none",
    )
    return f"| {' | '.join(cells)} |"


def main(folders: list[str]) -> int:
    print(HEAD)
    is_short = False
    for experiment in [
        experiment_folder
        for folder in folders
        for experiment_folder in find_experiments(Path(folder))
    ]:
        for run in load_experiment(experiment).runs:
            agreement = measure_agreement(run)
            if agreement is None:
                continue
            print(line(run, agreement))
            goal = GOAL_FORK_JOIN if agreement.fork_join else GOAL_LINE
            is_short |= (agreement.share or 0.0) < goal and not agreement.misses
    return int(is_short)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
