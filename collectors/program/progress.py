"""Counts that survive a killed process: replays, steps and step times.

The file of a program's state is too slow to write often. These two files contain only numbers: a
row of counts that is overwritten, and step times that are appended.
"""

from __future__ import annotations

import struct
import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from collectors.program.files import ProcessFolder
from collectors.program.mapped_file import read_mapped_file
from graphviz_dash.model.recording import Recording

COUNTS_FILE: Final = "counts.bin"
STEPS_FILE: Final = "steps.bin"

FLUSH_S: Final = 0.08
"""Seconds between two writes. A killed process loses at most 0.1 s: the rest is for the write and
for Python's lock, which a thread receives after up to 5 ms."""

_NO_TIME: Final = -1
_HEAD: Final = 6


class Progress(Struct, frozen=True):
    """Counts of a process at one moment."""

    written_ns: int
    """Time of the write, by the performance counter."""
    series: int
    """Number of the series of step times. Each capture starts another one."""
    step_ns: Sequence[int]
    """Step times of the series."""
    drain_ns: int | None
    """Wait for the GPU after the last step, or None."""
    steps: int
    dropped_steps: int
    """Number of steps without events."""
    replays: Sequence[int]
    """Replays of each graph, in the order of their captures."""


class ProgressFiles:
    """Writes progress into ``folder``."""

    def __init__(self, folder: ProcessFolder) -> None:
        self._folder = folder
        self._series = _NO_TIME
        self._written = 0

    def count_times(self, series: int) -> int:
        """Return the number of written step times of a series."""
        return self._written if series == self._series else 0

    def write(
        self,
        series: int,
        new_step_ns: Sequence[int],
        drain_ns: int | None,
        steps: int,
        dropped_steps: int,
        replays: Sequence[int],
    ) -> None:
        """Write the counts, and the step times after those of :meth:`count_times`."""
        if series != self._series:
            content = array("q", (series, *new_step_ns)).tobytes()
            self._folder.rewrite(STEPS_FILE, content)
            self._series, self._written = series, 0
        elif new_step_ns:
            self._folder.append(STEPS_FILE, array("q", new_step_ns).tobytes())
        self._written += len(new_step_ns)
        content = struct.pack(
            f"{_HEAD + len(replays)}q",
            time.perf_counter_ns(),
            series,
            self._written,
            _NO_TIME if drain_ns is None else drain_ns,
            steps,
            dropped_steps,
            *replays,
        )
        self._folder.rewrite(COUNTS_FILE, content)


def read_progress(folder: Path) -> Progress | None:
    """Read the last progress of a process. None if it wrote none."""
    counts, times = _read_numbers(folder / COUNTS_FILE), _read_numbers(folder / STEPS_FILE)
    if len(counts) < _HEAD:
        return None
    written_ns, series, length, drain_ns, steps, dropped_steps, *replays = counts
    series_ns = times[1 : 1 + length] if times and times[0] == series else []
    return Progress(
        written_ns,
        series,
        series_ns,
        None if drain_ns < 0 else drain_ns,
        steps,
        dropped_steps,
        replays,
    )


def add_progress(state: Recording, progress: Progress | None) -> Recording:
    """Update ``state`` of a killed process to its last progress."""
    if progress is None:
        return state
    graphs = [
        replace(graph, replays=max(graph.replays, count))
        for graph, count in zip(state.graphs, progress.replays, strict=False)
    ]
    newer = progress.steps > state.steps
    return replace(
        state,
        graphs=(*graphs, *state.graphs[len(graphs) :]),
        steps=max(state.steps, progress.steps),
        step_ns=tuple(progress.step_ns) if newer else state.step_ns,
        final_wait_ns=progress.drain_ns if newer else state.final_wait_ns,
    )


def _read_numbers(file: Path) -> Sequence[int]:
    """Read 64-bit numbers from ``file``, without a truncated one. Empty without a file."""
    numbers = array("q")
    if file.exists():
        content = read_mapped_file(file)
        numbers.frombytes(content[: len(content) // numbers.itemsize * numbers.itemsize])
    return numbers.tolist()
