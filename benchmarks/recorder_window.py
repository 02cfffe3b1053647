"""Measure the recorder's overhead on programs before, in and after its traced window.

Needs a CUDA GPU. Each program runs bare, recorded with ``--steps 0``, and recorded with the default
window, interleaved. A clock inside the program stamps each graph replay in all three runs::

    python -m benchmarks.recorder_window 'python train.py --steps 2000' [...] [--repeats 3]

The run with a window defines the phases: the replays before the profiler starts, while it runs, and
after it stops. Replays with the same numbers are compared in the other two runs. Times are per
replay: the median over blocks of consecutive replays. The goal is an overhead of at most 2% before
and after the window, by the median over the repeats.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

GOAL: Final = 1.02
BLOCK: Final = 20
"""Replays per block: more than a step of most programs, fewer than between two pauses."""
SETTLE: Final = 20
"""Replays after the window that belong to no phase."""
CLOCK: Final = Path(__file__).parent / "replay_clock"
ROOT: Final = Path(__file__).parents[1]

BARE, NO_WINDOW, WINDOW = "bare", "--steps 0", "default"
RUNS: Final = (BARE, NO_WINDOW, WINDOW)
PHASES: Final = ("before", "in", "after")
FIELDS: Final = (
    "window_open_ns",
    "window_close_ns",
    "window_ended_by",
    "window_missing_reason",
    "cupti_attached",
)
"""Fields of recording.json that are printed."""


@dataclass(frozen=True)
class TimedRun:
    """One run of a program."""

    stamps: Sequence[int]
    """Times of the replays, in ns."""
    window: tuple[int, int] | None
    """First replay under the profiler and first replay after it. None if no profiler ran."""
    seconds: float
    recording: dict[str, object]
    """Fields of recording.json. Empty for a bare run."""


def run_program(command: str, kind: str, extra: Sequence[str], timeout_s: float) -> TimedRun:
    """Run ``command`` bare or recorded, and read its stamps. A timeout ends its processes."""
    with tempfile.TemporaryDirectory() as folder:
        clock = Path(folder, "clock")
        clock.mkdir()
        path = os.pathsep.join(
            filter(None, (str(CLOCK), str(ROOT), os.environ.get("PYTHONPATH", "")))
        )
        environment = os.environ | {"PYTHONPATH": path, "REPLAY_CLOCK": str(clock)}
        arguments = shlex.split(command)
        if kind != BARE:
            options = ["--steps", "0"] if kind == NO_WINDOW else []
            collect = [sys.executable, "-m", "collectors", "-o", str(Path(folder, "out"))]
            arguments = [*collect, *options, *extra, "--", *arguments]
        begin = time.perf_counter()
        with Path(folder, "log").open("wb") as log:
            process = subprocess.Popen(
                arguments,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            problem = _wait_for_group(process, timeout_s)
        seconds = time.perf_counter() - begin
        if problem is not None:
            end = Path(folder, "log").read_text(errors="replace")[-1500:]
            print(f"  {kind}: {problem}\n{end}", file=sys.stderr)
        return TimedRun(*_read_stamps(clock), seconds, _read_recording(Path(folder, "out")))


def _wait_for_group(process: subprocess.Popen[bytes], timeout_s: float) -> str | None:
    """Wait for a process, end its group, and describe a failure."""
    try:
        code = process.wait(timeout_s)
        return f"exit code {code}" if code else None
    except subprocess.TimeoutExpired:
        return f"no end after {timeout_s:.0f} s"
    finally:
        # Engines leave workers, which would keep the memory of the GPU.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _read_stamps(folder: Path) -> tuple[list[int], tuple[int, int] | None]:
    """Read stamps and window of the process with the most replays."""
    rows = array("q")
    for file in folder.glob("*.stamps"):
        content = array("q")
        content.frombytes(file.read_bytes())
        if len(content) > len(rows):
            rows = content
    profiled_rows = [number for number, row in enumerate(rows) if row & 1]
    window = (profiled_rows[0], profiled_rows[-1] + 1) if profiled_rows else None
    return [row >> 1 for row in rows], window


def _read_recording(output: Path) -> dict[str, object]:
    """Read the recording of the process with the most replays."""
    recordings = [json.loads(file.read_text()) for file in output.glob("*/recording.json")]
    return max(
        recordings,
        key=lambda recording: sum(graph["replays"] for graph in recording["graphs"]),
        default={},
    )


def compute_phase_ns(stamps: Sequence[int], begin: int, end: int) -> float | None:
    """Compute the median time per replay over blocks between two replays, in ns. None without a
    complete block."""
    blocks = [
        (stamps[at + BLOCK] - stamps[at]) / BLOCK
        for at in range(begin, min(end, len(stamps)) - BLOCK, BLOCK)
    ]
    return statistics.median(blocks) if blocks else None


def compute_phase_times(run: TimedRun, window: tuple[int, int]) -> dict[str, float | None]:
    """Compute the time per replay in each phase, in ns, by the window of another run."""
    first, last = window
    bounds = {
        # The first replays load kernels and fill caches.
        "before": (first // 2, first - 1),
        "in": (first, last),
        "after": (last + SETTLE, len(run.stamps)),
    }
    return {phase: compute_phase_ns(run.stamps, *bound) for phase, bound in bounds.items()}


def print_comparison(command: str, rounds: Sequence[Mapping[str, TimedRun]]) -> bool:
    """Print a table of runs. True if they meet the goal, False without a comparison."""
    times: dict[tuple[str, str], list[float]] = {}
    for runs in rounds:
        window = runs[WINDOW].window
        for kind, run in runs.items():
            for phase, time_ns in compute_phase_times(run, window).items() if window else ():
                if time_ns is not None:
                    times.setdefault((kind, phase), []).append(time_ns)
    print(f"\n{command}")
    medians = {key: statistics.median(values) for key, values in times.items()}
    for kind in RUNS:
        seconds = statistics.median(runs[kind].seconds for runs in rounds)
        row = [f"{kind:10}", f"{seconds:7.1f} s", f"{len(rounds[-1][kind].stamps):6} replays"]
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
    recording = rounds[-1][WINDOW].recording
    print("  " + ", ".join(f"{field} {recording.get(field)}" for field in FIELDS), flush=True)
    ratios = [
        medians[kind, phase] / medians[BARE, phase]
        for kind in (NO_WINDOW, WINDOW)
        for phase in ("before", "after")
        if (kind, phase) in medians and (BARE, phase) in medians
    ]
    return bool(ratios) and max(ratios) <= GOAL


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("commands", nargs="+", help="A command line each, in quotes.")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=300.0, help="Seconds for one run.")
    parser.add_argument("--options", default="", help="More options of collect, in quotes.")
    options = parser.parse_args()
    extra = shlex.split(options.options)
    results = []
    for command in options.commands:
        rounds = [
            {kind: run_program(command, kind, extra, options.timeout) for kind in RUNS}
            for _ in range(options.repeats)
        ]
        results.append(print_comparison(command, rounds))
    count = sum(results)
    print(f"\n{count} of {len(results)} programs are within {(GOAL - 1) * 100:.0f}%")
    sys.exit(count < len(results))


if __name__ == "__main__":
    main()
