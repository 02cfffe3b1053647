"""Score predictions of mode ``parallel``: ``python -m evaluation.parallel.score``.

Each file of evaluation/data/parallel is a step that was planned, captured on several streams and
timed on an H200; :mod:`evaluation.parallel.record` records more. The current model predicts its
plan from data that was known before the capture. The prediction is compared with replays that were
timed after the plan was chosen. Needs no GPU.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from graphviz_dash.features.prediction.analysis.measured import select_attempt
from graphviz_dash.planning.operations import MEASURED_COSTS, split_operations
from graphviz_dash.planning.operators import build_operations
from graphviz_dash.planning.streams import predict_replay_ns
from tests.recorded_plans import DATA, RecordedPlan, Split, read_plan, split_recorded

GOAL_MEDIAN: Final = 0.05
GOAL_MOST: Final = 0.10


class Score(Struct, frozen=True):
    """A prediction and the measurement; times in ns."""

    recorded: RecordedPlan
    then_ns: float | None
    """Prediction at the time of collection; None without a timed plan."""
    now_ns: float
    """Current prediction for the selected plan."""

    @property
    def error(self) -> float:
        """Relative error of the current prediction."""
        return self.now_ns / self.recorded.measured_ns - 1


def recorded_plans(folder: Path = DATA) -> list[RecordedPlan]:
    files = sorted(folder.glob("*.json.gz"))
    return [read_plan(path) for path in files]


def score(recorded: RecordedPlan) -> Score:
    plan = recorded.plan
    operations = build_operations(plan.operators, MEASURED_COSTS)
    parts, owners = split_operations(
        operations, split_recorded(recorded), MEASURED_COSTS.same_stream_gap_ns
    )
    part = predict_replay_ns(
        parts, [plan.streams[owner] for owner in owners], MEASURED_COSTS
    ) / predict_replay_ns(parts, [0] * len(parts), MEASURED_COSTS)
    # What a collection adds to what it simulates: launch and return.
    fixed_ns = plan.serial.predicted_ns - predict_replay_ns(
        operations, [0] * len(operations), MEASURED_COSTS
    )
    attempt = select_attempt(plan)
    then_ns = None if attempt is None else attempt.predicted_ns
    return Score(recorded, then_ns, fixed_ns + (recorded.line_ns - fixed_ns) * part)


HEADINGS: Final = ("step", "nodes", "streams", "line", "collected", "predicted", "measured", "off")


def lines(scores: list[Score]) -> Iterator[str]:
    """The table and its summary; times in µs."""
    for split in Split:
        split_scores = [row_score for row_score in scores if row_score.recorded.split is split]
        if not split_scores:
            continue
        yield f"| {split.value}: " + " | ".join(HEADINGS) + " |"
        yield "| --- |" + " ---: |" * (len(HEADINGS) - 1)
        for row_score in split_scores:
            recorded = row_score.recorded
            is_parallel = recorded.plan.selected_streams > 1
            now = (row_score.then_ns, row_score.now_ns) if is_parallel else (None, None)
            times = (recorded.line_ns, *now, recorded.measured_ns)
            note = "" if recorded.nodes is not None else " (*)"
            nodes = sum(operator.nodes for operator in recorded.plan.operators)
            cells = [f"{recorded.name}{note}", f"{nodes}", f"{recorded.plan.selected_streams}"]
            cells += ["–" if time is None else f"{time / 1e3:,.0f}" for time in times] + [
                f"{row_score.error:+.1%}" if recorded.plan.selected_streams > 1 else "the line"
            ]
            yield "| " + " | ".join(cells) + " |"
        errors = [
            abs(row_score.error)
            for row_score in split_scores
            if row_score.recorded.plan.selected_streams > 1
        ]
        within_goal = sum(error <= GOAL_MOST for error in errors)
        yield ""
        yield (
            f"{split.value}: median {statistics.median(errors):.1%} (goal {GOAL_MEDIAN:.0%}), "
            f"{within_goal} of {len(errors)} within {GOAL_MOST:.0%}, worst {max(errors):.1%}"
        )
        yield ""
    if any(row_score.recorded.nodes is None for row_score in scores):
        yield "(*) its kernels were not recorded: the largest of an operator stands for all of it."


def main() -> None:
    for line in lines([score(each) for each in recorded_plans()]):
        print(line)


if __name__ == "__main__":
    main()
