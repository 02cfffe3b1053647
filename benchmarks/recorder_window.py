"""Compare programs that replay graphs: bare, recorded without a traced window, and by default.

    python -m benchmarks.recorder_window 'python train.py --steps 2000' [...] [--runs 4]

Needs a GPU and torch. Several processes of each kind start together. Then they take turns in random
order, one block of replays each, so that clocks and load of the machine affect all kinds equally.
Each process replays the same blocks, and a block is compared with the same block of the bare
processes. The blocks of the default recording under its profiler define the phases.

The goal is at most 2% before and after the window. The verdict uses the 90% interval of the
difference between processes: met, missed, or not resolved.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shlex
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

GOAL: Final = 0.02
CLOCK: Final = Path(__file__).parent / "replay_clock"
ROOT: Final = Path(__file__).parents[1]

BARE, NO_WINDOW, WINDOW = "bare", "--steps 0", "default"
KINDS: Final = (BARE, NO_WINDOW, WINDOW)
PHASES: Final = ("before", "in", "after")
FIELDS: Final = (
    "window_open_ns",
    "window_close_ns",
    "window_ended_by",
    "window_missing_reason",
    "cupti_attached",
)
"""Fields of recording.json that are printed."""

_REPORT: Final = struct.Struct("3q")
_QUANTILE_90: Final = (6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81)
"""95th percentile of Student's t for 1 degree of freedom and more."""
_NORMAL_90: Final = 1.7


class Block(NamedTuple):
    """Consecutive replays of one process."""

    wall_ns: int
    cpu_ns: int
    """CPU time of the replaying thread."""
    has_profiler: bool


@dataclass
class TimedRun:
    """One process of a program and its blocks."""

    kind: str
    blocks: list[Block] = field(default_factory=list)
    recording: dict[str, object] = field(default_factory=dict)
    """Fields of recording.json. Empty for a bare run."""


class Difference(NamedTuple):
    """Relative difference from the bare runs, with a 90% interval over processes."""

    value: float
    margin: float
    """Half of the interval. Infinite for single processes."""

    @property
    def verdict(self) -> str:
        """Comparison with the goal."""
        if self.value + self.margin <= GOAL:
            return "met"
        return "missed" if self.value - self.margin > GOAL else "not resolved"


@dataclass
class _Process:
    run: TimedRun
    process: subprocess.Popen[bytes]
    output: Path
    log: Path
    connection: socket.socket | None = None

    def is_running(self) -> bool:
        return self.process.poll() is None

    def end(self) -> None:
        # Engines leave workers, which would keep the memory of the GPU.
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass(frozen=True)
class Plan:
    """Settings of a comparison."""

    runs: int
    """Processes per kind."""
    free: int
    """Replays before the first turn."""
    lead: int
    """Replays at the start of each turn that are not timed."""
    block: int
    seconds: float
    """Limit of one program."""
    options: tuple[str, ...]
    """More options of collect."""


def time_program(command: str, plan: Plan) -> list[TimedRun]:
    """Run ``command`` several times in each way, interleaved. Processes that exceed the time limit
    are killed; their blocks so far count."""
    deadline = time.monotonic() + plan.seconds
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(folder / "turns"))
        listener.listen(64)
        processes = [
            _start_process(command, kind, plan, folder, number)
            for number, kind in enumerate(KINDS * plan.runs)
        ]
        for process in processes:
            stack.callback(process.end)
        _accept_all(listener, processes, deadline)
        _take_turns([process for process in processes if process.connection], deadline)
        for process in processes:
            _finish_process(process, deadline)
        return [process.run for process in processes]


def _start_process(command: str, kind: str, plan: Plan, folder: Path, number: int) -> _Process:
    path = os.pathsep.join(filter(None, (str(CLOCK), str(ROOT), os.environ.get("PYTHONPATH", ""))))
    numbers = (number, plan.free, plan.lead, plan.block)
    environment = os.environ | {
        "PYTHONPATH": path,
        "REPLAY_TURNS": str(folder / "turns"),
        "REPLAY_NUMBERS": ",".join(map(str, numbers)),
    }
    arguments, output, log = shlex.split(command), folder / f"{number}", folder / f"{number}.log"
    if kind != BARE:
        options = ["--steps", "0"] if kind == NO_WINDOW else []
        collect = [sys.executable, "-m", "collectors", "-o", str(output)]
        arguments = [*collect, *options, *plan.options, "--", *arguments]
    with log.open("wb") as file:
        process = subprocess.Popen(
            arguments,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return _Process(TimedRun(kind), process, output, log)


def _accept_all(listener: socket.socket, processes: Sequence[_Process], deadline: float) -> None:
    """Accept a connection of each process that replays graphs."""
    listener.settimeout(0.2)
    while time.monotonic() < deadline:
        if not any(process.connection is None and process.is_running() for process in processes):
            return
        with suppress(TimeoutError):
            connection, _ = listener.accept()
            report = _receive(connection, lambda: time.monotonic() < deadline)
            if report is not None:
                processes[report[0]].connection = connection


def _take_turns(processes: Sequence[_Process], deadline: float) -> None:
    """Let each process run one block after another, until all have ended."""
    shuffle = random.Random(0).shuffle
    running = list(processes)
    while running and time.monotonic() < deadline:
        shuffle(running)
        for process in tuple(running):
            assert process.connection is not None
            with suppress(OSError):
                process.connection.sendall(b"g")
            report = _receive(process.connection, partial(_is_open, process, deadline))
            if report is None:
                running.remove(process)
            else:
                process.run.blocks.append(Block(report[0], report[1], bool(report[2])))


def _is_open(process: _Process, deadline: float) -> bool:
    return process.is_running() and time.monotonic() < deadline


def _receive(connection: socket.socket, is_open: Callable[[], bool]) -> tuple[int, ...] | None:
    """Receive three numbers. None at the end of the connection or if it is no longer open."""
    connection.settimeout(0.2)
    content = b""
    while len(content) < _REPORT.size:
        try:
            part = connection.recv(_REPORT.size - len(content))
        except TimeoutError:
            if is_open():
                continue
            return None
        except OSError:
            return None
        if not part:
            return None
        content += part
    return _REPORT.unpack(content)


def _finish_process(process: _Process, deadline: float) -> None:
    if process.connection is not None:
        process.connection.close()
    try:
        code = process.process.wait(max(1.0, deadline - time.monotonic()))
        problem = f"exit code {code}" if code else None
    except subprocess.TimeoutExpired:
        problem = "stopped at the limit of time"
    process.end()
    if problem is not None:
        end = process.log.read_text(errors="replace")[-1500:]
        print(f"  {process.run.kind}: {problem}\n{end}", file=sys.stderr)
    process.run.recording = _read_recording(process.output)


def _read_recording(output: Path) -> dict[str, object]:
    """Read the recording of the process with the most replays."""
    recordings = [json.loads(file.read_text()) for file in output.glob("*/recording.json")]
    return max(
        recordings,
        key=lambda recording: sum(graph["replays"] for graph in recording["graphs"]),
        default={},
    )


def find_phases(runs: Sequence[TimedRun]) -> dict[str, range]:
    """Find the blocks of each phase. The first block and the one after the window belong to none.
    Without a window, all blocks are before it."""
    length = max((len(run.blocks) for run in runs), default=0)
    profiled_blocks = [
        number for run in runs for number, block in enumerate(run.blocks) if block.has_profiler
    ]
    if not profiled_blocks:
        return {"before": range(1, length), "in": range(0), "after": range(0)}
    first, last = min(profiled_blocks), max(profiled_blocks)
    return {
        "before": range(1, first),
        "in": range(first, last + 1),
        "after": range(last + 2, length),
    }


def compare_runs(
    runs: Sequence[TimedRun], kind: str, blocks: range, read: Callable[[Block], int]
) -> Difference | None:
    """Compare the runs of a kind with the bare ones, by ``read`` of ``blocks``.

    Each block is divided by the median of the same block in the bare runs. The median of these
    ratios describes a run; the interval is that of the difference of the means over runs. None
    without a common block.
    """
    bare = [run for run in runs if run.kind == BARE]
    references = {}
    for number in blocks:
        values = [read(run.blocks[number]) for run in bare if number < len(run.blocks)]
        if values and min(values) > 0:
            references[number] = statistics.median(values)
    levels: dict[str, list[float]] = {BARE: [], kind: []}
    for run in runs:
        ratios = [
            math.log(read(run.blocks[number]) / reference)
            for number, reference in references.items()
            if number < len(run.blocks) and read(run.blocks[number]) > 0
        ]
        if ratios and run.kind in levels:
            levels[run.kind].append(statistics.median(ratios))
    if not all(levels.values()):
        return None
    value = statistics.mean(levels[kind]) - statistics.mean(levels[BARE])
    return Difference(math.expm1(value), _compute_margin(levels[BARE], levels[kind]))


def _compute_margin(first: Sequence[float], second: Sequence[float]) -> float:
    """Compute half of the 90% interval of a difference of means, with a common variance."""
    freedom = len(first) + len(second) - 2
    if freedom < 1:
        return math.inf
    squares = sum(
        (value - statistics.mean(values)) ** 2 for values in (first, second) for value in values
    )
    quantile = _QUANTILE_90[freedom - 1] if freedom <= len(_QUANTILE_90) else _NORMAL_90
    return quantile * math.sqrt(squares / freedom * (1 / len(first) + 1 / len(second)))


def print_comparison(
    command: str, runs: Sequence[TimedRun], block: int
) -> Mapping[tuple[str, str], Difference]:
    """Print a table of runs. Returns the differences of wall time by kind and phase."""
    print(f"\n{command}")
    phases = find_phases(runs)
    differences = {}
    for phase, blocks in phases.items():
        times = [
            run.blocks[number].wall_ns / block
            for run in runs
            for number in blocks
            if run.kind == BARE and number < len(run.blocks)
        ]
        if not times:
            print(f"  {phase:6} no blocks")
            continue
        low = statistics.quantiles(times, n=4)[0] if len(times) > 1 else times[0]
        row = [
            f"  {phase:6} {len(blocks):4} blocks  bare {statistics.median(times) / 1e3:.1f} µs per "
            f"replay, lower quartile {low / 1e3:.1f}"
        ]
        for kind in (NO_WINDOW, WINDOW):
            wall = compare_runs(runs, kind, blocks, lambda block: block.wall_ns)
            cpu = compare_runs(runs, kind, blocks, lambda block: block.cpu_ns)
            if wall is not None:
                differences[kind, phase] = wall
                row.append(f"{kind} {_format(wall)} ({wall.verdict})")
            if cpu is not None:
                row.append(f"CPU {_format(cpu)}")
        print("  ".join(row))
    counts = {kind: [len(run.blocks) for run in runs if run.kind == kind] for kind in KINDS}
    print("  blocks", ", ".join(f"{kind} {lengths}" for kind, lengths in counts.items()))
    for run in runs:
        if run.kind == WINDOW:
            print("  " + ", ".join(f"{name} {run.recording.get(name)}" for name in FIELDS))
    sys.stdout.flush()
    return differences


def _format(difference: Difference) -> str:
    return f"{difference.value:+.1%} ± {difference.margin:.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("commands", nargs="+", help="A command line each, in quotes.")
    parser.add_argument("--runs", type=int, default=4, help="Processes of each kind.")
    parser.add_argument("--free", type=int, default=1, help="Replays before the first turn.")
    parser.add_argument("--lead", type=int, default=5, help="Replays of a turn before its block.")
    parser.add_argument("--block", type=int, default=40, help="Timed replays of a turn.")
    parser.add_argument("--seconds", type=float, default=300.0, help="Limit for one program.")
    parser.add_argument("--options", default="", help="More options of collect, in quotes.")
    options = parser.parse_args()
    extra = tuple(shlex.split(options.options))
    plan = Plan(options.runs, options.free, options.lead, options.block, options.seconds, extra)
    verdicts = []
    for command in options.commands:
        differences = print_comparison(command, time_program(command, plan), plan.block)
        verdicts += [
            difference.verdict
            for (_, phase), difference in differences.items()
            if phase in ("before", "after")
        ]
    counts = {verdict: verdicts.count(verdict) for verdict in ("met", "missed", "not resolved")}
    print(f"\nat most {GOAL:.0%} before and after the window: {counts}")
    sys.exit(counts["met"] < len(verdicts) or not verdicts)


if __name__ == "__main__":
    main()
