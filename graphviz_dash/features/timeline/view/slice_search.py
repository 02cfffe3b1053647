"""Search for GPU slices by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from graphviz_dash.features.timeline.view.run import ChosenRun

MAX_HITS: Final = 500
"""Maximum number of hits; the count covers all."""


class SliceHits(msgspec.Struct, frozen=True):
    """Slices whose name contains a text, the chosen step of each run first."""

    hits: list[str]
    """Tokens with their run: "graph/g12"."""
    count: int
    """Number of all matching slices."""


def find_slices(runs: Sequence[ChosenRun], text: str) -> SliceHits:
    """Find GPU slices by name, ignoring case."""
    hits: list[str] = []
    count = 0
    for view_run in runs:
        labels, lanes = view_run.timeline.gpu_labels, view_run.timeline.lanes.gpu
        matches = np.array([text.lower() in name.lower() for name, _ in labels.texts], dtype=bool)
        if not matches.any() or not len(labels.codes):
            continue
        positions = np.flatnonzero(matches[labels.codes[lanes.row]])
        count += len(positions)
        step = view_run.step
        outside_step = (
            (lanes.start[positions] < step.span_start) | (lanes.start[positions] > step.span_end)
            if step
            else np.zeros(len(positions), dtype=bool)
        )
        order = np.lexsort((lanes.start[positions], outside_step))[: MAX_HITS - len(hits)]
        run = view_run.timeline.run
        hits += [f"{run}/g{row}" for row in lanes.row[positions[order]].tolist()]
    return SliceHits(hits, count)
