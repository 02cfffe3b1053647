"""Steps in evaluation/data/parallel: planned, captured on several streams and timed on an H200."""

from __future__ import annotations

import gzip
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from graphviz_dash.model.parallel import ParallelPlan
from graphviz_dash.planning.operations import Piece
from graphviz_dash.planning.share import KernelLaunch, split_into_pieces

DATA: Final = Path(__file__).parents[1] / "evaluation" / "data" / "parallel"


class Split(StrEnum):
    """Role of a step while the model was built."""

    FITTED = "fitted"
    """The costs or shares were fitted with it."""
    SEEN = "seen"
    """Its error was looked at before the model was last changed."""
    UNSEEN = "unseen"
    """Nobody had looked at it when the model was last changed."""


class Launch(Struct, frozen=True, array_like=True):
    """A node of an operator."""

    name: str
    """Prefix of the kernel's name; empty if no kernel."""
    blocks: int
    threads: int
    registers: int
    shared_bytes: int


class RecordedPlan(Struct, frozen=True):
    name: str
    split: Split
    gpu: str
    multiprocessors: int
    compute_capability: tuple[int, int]
    plan: ParallelPlan
    """As it was collected, with what operators take and need."""
    nodes: tuple[tuple[Launch, ...], ...] | None
    """Nodes by operator; None if not recorded, so that its largest kernel represents all."""
    line_ns: int
    """The median replay of the line, after all."""
    measured_ns: int
    """Median replay of the selected plan, captured again at the end."""


def read_plan(path: Path) -> RecordedPlan:
    return msgspec.json.decode(gzip.decompress(path.read_bytes()), type=RecordedPlan)


def split_recorded(recorded: RecordedPlan) -> list[list[Piece]]:
    """Split the kernels of each operator as the planner does; empty if they were not recorded."""
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
