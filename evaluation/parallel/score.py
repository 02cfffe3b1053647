"""How far predictions of mode ``parallel`` are off: ``python -m evaluation.parallel.score``.

Each file of evaluation/data/parallel is a step that was planned, captured on several streams and
timed on an H200 (:mod:`evaluation.parallel.unseen` records more). Its plan is predicted anew by the
model as it is, from what the collection had observed before it captured the plan, and held against
replays that were timed after the plan had been chosen: the fastest of several attempts is faster
than it will be again. Needs no GPU.
"""

from __future__ import annotations

import gzip
import statistics
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from graphviz_dash.features.prediction.analysis.measured import select_attempt
from graphviz_dash.model.parallel import ParallelPlan
from graphviz_dash.planning.operations import (
    MEASURED_COSTS,
    Piece,
    split_operations,
)
from graphviz_dash.planning.operators import build_operations
from graphviz_dash.planning.share import KernelLaunch, split_into_pieces
from graphviz_dash.planning.streams import predict_replay_ns

DATA: Final = Path(__file__).parents[1] / "data" / "parallel"

GOAL_MEDIAN: Final = 0.05
GOAL_MOST: Final = 0.10


class Split(StrEnum):
    """What part a step played while the model was made."""

    FITTED = "fitted"
    """The costs or shares were fitted with it."""
    SEEN = "seen"
    """Its error was looked at before the model was last changed."""
    UNSEEN = "unseen"
    """Nobody had looked at it when the model was last changed."""


class Launch(Struct, frozen=True, array_like=True):
    """A node of an operator."""

    name: str
    """The begin of the kernel's name; empty for what is no kernel."""
    blocks: int
    """Of the grid."""
    threads: int
    """Of a block."""
    registers: int
    """Of a thread."""
    shared_bytes: int
    """Of a block."""


class RecordedPlan(Struct, frozen=True):
    """A step that was planned and timed."""

    name: str
    """What it is."""
    split: Split
    """What part it played."""
    gpu: str
    """What it ran on."""
    multiprocessors: int
    """Of that."""
    compute_capability: tuple[int, int]
    """Of that."""
    plan: ParallelPlan
    """As it was collected, with what operators take and need."""
    nodes: tuple[tuple[Launch, ...], ...] | None
    """By operator its nodes; None: not recorded, so that its largest kernel stands for all."""
    line_ns: int
    """The median replay of the line, after all."""
    measured_ns: int
    """The median replay of the plan that was taken, captured anew, after all."""


class Score(Struct, frozen=True):
    """A prediction and what it is held against; times in ns."""

    recorded: RecordedPlan
    """The step."""
    then_ns: float | None
    """What the collection predicted; None where no plan was timed."""
    now_ns: float
    """What the model predicts now for the plan that was taken."""

    @property
    def error(self) -> float:
        """Of the prediction now, as a part of the measured time."""
        return self.now_ns / self.recorded.measured_ns - 1


def recorded_plans(folder: Path = DATA) -> list[RecordedPlan]:
    """The recorded steps, by name."""
    files = sorted(folder.glob("*.json.gz"))
    return [decoded(path) for path in files]


def decoded(path: Path) -> RecordedPlan:
    """The recorded step in a file."""
    return msgspec.json.decode(gzip.decompress(path.read_bytes()), type=RecordedPlan)


def score(recorded: RecordedPlan) -> Score:
    """The prediction for the plan that was taken."""
    plan = recorded.plan
    operations = build_operations(plan.operators, MEASURED_COSTS)
    parts, owners = split_operations(
        operations, recorded_pieces(recorded), MEASURED_COSTS.same_stream_gap_ns
    )
    part = predict_replay_ns(
        parts, [plan.stream[owner] for owner in owners], MEASURED_COSTS
    ) / predict_replay_ns(parts, [0] * len(parts), MEASURED_COSTS)
    # What a collection adds to what it simulates: launch and return.
    fixed_ns = plan.line.expected_ns - predict_replay_ns(
        operations, [0] * len(operations), MEASURED_COSTS
    )
    chosen = select_attempt(plan)
    then_ns = None if chosen is None else chosen.expected_ns
    return Score(recorded, then_ns, fixed_ns + (recorded.line_ns - fixed_ns) * part)


def recorded_pieces(recorded: RecordedPlan) -> list[list[Piece]]:
    """By operator its kernels, as the planner takes them; none where they were not recorded."""
    if recorded.nodes is None:
        return [[] for _ in recorded.plan.operators]
    return [
        list(
            split_into_pieces(
                [None if not node.name else KernelLaunch(*astuple(node)) for node in nodes],
                operator.device_ns or 0,
                recorded.multiprocessors,
                recorded.compute_capability,
            )
        )
        for operator, nodes in zip(recorded.plan.operators, recorded.nodes, strict=True)
    ]


HEADINGS: Final = ("step", "nodes", "streams", "line", "collected", "predicted", "measured", "off")


def lines(scores: list[Score]) -> Iterator[str]:
    """The table, and what it comes to; times in µs."""
    for split in Split:
        own = [each for each in scores if each.recorded.split is split]
        if not own:
            continue
        yield f"| {split.value}: " + " | ".join(HEADINGS) + " |"
        yield "| --- |" + " ---: |" * (len(HEADINGS) - 1)
        for each in own:
            recorded = each.recorded
            now = (each.then_ns, each.now_ns) if recorded.plan.chosen > 1 else (None, None)
            times = (recorded.line_ns, *now, recorded.measured_ns)
            known = "" if recorded.nodes is not None else " (*)"
            nodes = sum(operator.nodes for operator in recorded.plan.operators)
            cells = [f"{recorded.name}{known}", f"{nodes}", f"{recorded.plan.chosen}"]
            cells += ["–" if time is None else f"{time / 1e3:,.0f}" for time in times] + [
                f"{each.error:+.1%}" if recorded.plan.chosen > 1 else "the line"
            ]
            yield "| " + " | ".join(cells) + " |"
        errors = [abs(each.error) for each in own if each.recorded.plan.chosen > 1]
        within = sum(error <= GOAL_MOST for error in errors)
        yield ""
        yield (
            f"{split.value}: median {statistics.median(errors):.1%} (goal {GOAL_MEDIAN:.0%}), "
            f"{within} of {len(errors)} within {GOAL_MOST:.0%}, worst {max(errors):.1%}"
        )
        yield ""
    if any(each.recorded.nodes is None for each in scores):
        yield "(*) its kernels were not recorded: the largest of an operator stands for all of it."


def main() -> None:
    """Prints the table."""
    for line in lines([score(each) for each in recorded_plans()]):
        print(line)


if __name__ == "__main__":
    main()
