"""Measure the recorder's overhead on programs before, in and after its traced window.

Needs a CUDA GPU. Each program runs bare, recorded with ``--steps 0`` and recorded with the default
window, interleaved. A clock inside the program stamps each graph replay in all three runs::

    python -m benchmarks.recorder_window 'python train.py --steps 2000' [...] [--repeats 3]

The phases are those of the run with a window: the replays before the profiler starts, while it runs
and after it stops. The same replays, by their number, are compared in the other two runs. Times are
per replay: the median over blocks of consecutive replays. The goal is at most 2% before and after
the window, by the median over the repeats.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

GOAL: Final = 1.02
BLOCK: Final = 20
"""Replays in a block: more than one step of most programs, less than a pause."""
SETTLE: Final = 20
"""Replays after the end of a phase that belong to none."""
CLOCK: Final = Path(__file__).parent / "replay_clock"
ROOT: Final = Path(__file__).parents[1]

BARE, COUNTED, WINDOW = "bare", "--steps 0", "default"
RUNS: Final = (BARE, COUNTED, WINDOW)
PHASES: Final = ("before", "in", "after")


@dataclass(frozen=True)
class TimedRun:
    """One run of a program."""

    stamps: Sequence[int]
    """Times of its replays, in ns."""
    window: tuple[int, int] | None
    """First replay under the profiler and the first after it; None if no profiler ran."""
    seconds: float
    """Duration of the whole run."""
    recording: dict[str, object]
    """Fields of recording.json, empty for a bare run."""


def run_program(command: str, kind: str, extra: Sequence[str], timeout_s: float) -> TimedRun:
    """Run ``command`` bare or recorded, and read its stamps."""
    with tempfile.TemporaryDirectory() as folder:
        clock = Path(folder, "clock")
        clock.mkdir()
        path = os.pathsep.join(
            filter(None, (str(CLOCK), str(ROOT), os.environ.get("PYTHONPATH", "")))
        )
        environment = os.environ | {"PYTHONPATH": path, "REPLAY_CLOCK": str(clock)}
        arguments = shlex.split(command)
        if kind != BARE:
            options = ["--steps", "0"] if kind == COUNTED else []
            collect = [sys.executable, "-m", "collectors", "-o", str(Path(folder, "out"))]
            arguments = [*collect, *options, *extra, "--", *arguments]
        begin = time.perf_counter()
        done = subprocess.run(
            arguments,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )
        seconds = time.perf_counter() - begin
        if done.returncode != 0:
            print(f"  {kind}: exit code {done.returncode}", done.stderr[-800:], file=sys.stderr)
        return TimedRun(*_read_stamps(clock), seconds, _read_recording(Path(folder, "out")))


def _read_stamps(folder: Path) -> tuple[list[int], tuple[int, int] | None]:
    """Stamps and window of the process with the most replays."""
    rows = array("q")
    for file in folder.glob("*.stamps"):
        content = array("q")
        content.frombytes(file.read_bytes())
        if len(content) > len(rows):
            rows = content
    profiled = [number for number, row in enumerate(rows) if row & 1]
    window = (profiled[0], profiled[-1] + 1) if profiled else None
    return [row >> 1 for row in rows], window


def _read_recording(output: Path) -> dict[str, object]:
    """The recording of the process with the most replays."""
    recordings = [json.loads(file.read_text()) for file in output.glob("*/recording.json")]
    return max(
        recordings, key=lambda made: sum(graph["replays"] for graph in made["graphs"]), default={}
    )


def phase_ns(stamps: Sequence[int], begin: int, end: int) -> float | None:
    """Median time per replay over the blocks of the replays from ``begin`` to ``end``, in ns; None
    if there is no whole block."""
    blocks = [
        (stamps[at + BLOCK] - stamps[at]) / BLOCK
        for at in range(begin, min(end, len(stamps)) - BLOCK, BLOCK)
    ]
    return statistics.median(blocks) if blocks else None


def phase_times(run: TimedRun, window: tuple[int, int]) -> dict[str, float | None]:
    """Time per replay in each phase of the window of another run, in ns."""
    first, last = window
    bounds = {
        # The first replays include what happens once: kernels are loaded, caches are cold.
        "before": (first // 2, first - 1),
        "in": (first, last),
        "after": (last + SETTLE, len(run.stamps)),
    }
    return {phase: phase_ns(run.stamps, *bound) for phase, bound in bounds.items()}


def compare_runs(command: str, repeats: int, extra: Sequence[str], timeout_s: float) -> bool:
    """Run a program ``repeats`` times in each way and print its table; whether the goal is met."""
    times: dict[tuple[str, str], list[float]] = {}
    seconds: dict[str, list[float]] = {kind: [] for kind in RUNS}
    recording: dict[str, object] = {}
    for _ in range(repeats):
        runs = {kind: run_program(command, kind, extra, timeout_s) for kind in RUNS}
        window = runs[WINDOW].window
        recording = runs[WINDOW].recording or recording
        for kind, run in runs.items():
            seconds[kind].append(run.seconds)
            for phase, time_ns in phase_times(run, window).items() if window else ():
                if time_ns is not None:
                    times.setdefault((kind, phase), []).append(time_ns)
    print(f"\n{command}")
    medians = {key: statistics.median(values) for key, values in times.items()}
    for kind in RUNS:
        row = [f"{kind:10}", f"{statistics.median(seconds[kind]):7.1f} s"]
        for phase in PHASES:
            value, bare = medians.get((kind, phase)), medians.get((BARE, phase))
            if value is None or bare is None:
                row.append(f"{phase} –")
            else:
                spread = times[kind, phase]
                row.append(
                    f"{phase} {value / 1e3:.1f} µs ({min(spread) / 1e3:.1f} to "
                    f"{max(spread) / 1e3:.1f}) {(value / bare - 1) * 100:+.1f}%"
                )
        print("  " + "  ".join(row))
    for field in ("window_open_ns", "window_close_ns", "window_ended_by", "cupti_attached"):
        print(f"  {field}: {recording.get(field)}")
    return all(
        medians[kind, phase] / medians[BARE, phase] <= GOAL
        for kind in (COUNTED, WINDOW)
        for phase in ("before", "after")
        if (kind, phase) in medians and (BARE, phase) in medians
    )


def main() -> None:
    """Measure the programs of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("commands", nargs="+", help="A command line each, in quotes.")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=300.0, help="Seconds for one run.")
    parser.add_argument("--options", default="", help="More options of collect, in quotes.")
    chosen = parser.parse_args()
    extra = shlex.split(chosen.options)
    results = [
        compare_runs(command, chosen.repeats, extra, chosen.timeout) for command in chosen.commands
    ]
    met = sum(results)
    print(f"\n{met} of {len(results)} programs are within {(GOAL - 1) * 100:.0f}%")
    sys.exit(met < len(results))


if __name__ == "__main__":
    main()
