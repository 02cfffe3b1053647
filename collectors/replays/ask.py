"""Check a workload's replays in a separate process, without importing torch."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from collectors.doctor.requests import DoctorRequest
from collectors.process.lifeline import PARENT
from collectors.process.python import PYTHON, SAFE_PATH
from collectors.replays.monitor import POLL_S, ReplayMonitor
from graphviz_dash.errors import GraphvizDashError, InputError, escape_control_characters
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.replay_check import CheckGap, ReplayCheck, ReplayStop

CHECK_FILE: Final = "values.json"
HANG_SECONDS: Final = 30.0
"""Default time without progress after which a replay hangs."""

_SHARED_MEMORY: Final = Path("/dev/shm")


@contextmanager
def create_marks_folder(scratch: Path) -> Iterator[Path]:
    """Create a folder for files that the GPU writes: in shared memory if there is any."""
    parent = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else scratch
    folder = Path(tempfile.mkdtemp(prefix="graphviz-dash-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class CheckedWorkload:
    """Result of a check of a workload."""

    check: ReplayCheck
    graphs: tuple[CapturedGraph, ...]
    """The step's graph without hashes, followed by its bodies. Empty if the capture failed."""


@contextmanager
def prepare_check(request: DoctorRequest, scratch: Path) -> Iterator[Callable[[], CheckedWorkload]]:
    """Start a process that imports torch, and yield the function that checks a workload in it.

    The process uses no GPU before that call, and ends with the block. A process whose replay hangs
    is ended after the hang is known.

    Raises:
        GraphvizDashError: The workload is invalid; raised by the function.
    """
    with create_marks_folder(scratch) as folder:
        file = scratch / "replays-request.json"
        file.write_bytes(msgspec.json.encode(msgspec.structs.replace(request, marks=str(folder))))
        with subprocess.Popen(
            [*PYTHON, "-m", "collectors.replays.worker", str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=os.environ | SAFE_PATH | {PARENT: str(os.getpid())},
        ) as process:
            try:
                yield partial(_check, process, scratch)
            finally:
                process.kill()


def _check(process: subprocess.Popen[str], scratch: Path) -> CheckedWorkload:
    hangs: list[ReplayStop] = []
    monitor = ReplayMonitor(scratch, HANG_SECONDS, hangs.extend)
    stderr = _wait(process, monitor, hangs)
    stops = monitor.collect(process.returncode)
    graphs = tuple(monitor.read_first_graph())
    if process.returncode == InputError.exit_code and not stops.stops:
        lines = [line for line in stderr.splitlines() if line.strip()]
        raise GraphvizDashError(
            escape_control_characters(lines[-1] if lines else "the request was refused")
        )
    result = scratch / CHECK_FILE
    if result.exists():
        values = msgspec.json.decode(result.read_bytes(), type=ReplayCheck)
        return CheckedWorkload(join_checks(values, stops), graphs)
    if stops.stops:
        return CheckedWorkload(msgspec.structs.replace(stops, subject="workload"), graphs)
    last = next((line for line in reversed(stderr.splitlines()) if line.strip()), "no message")
    reason = f"the process ended with code {process.returncode}: {last[:200]}"
    gaps = (CheckGap("values", reason),)
    return CheckedWorkload(msgspec.structs.replace(stops, subject="workload", gaps=gaps), graphs)


def _wait(
    process: subprocess.Popen[str], monitor: ReplayMonitor, hangs: Sequence[ReplayStop]
) -> str:
    """Let a process start, read its marks, and end it after a hang. Returns its stderr."""
    start: str | None = "\n"
    while True:
        try:
            return process.communicate(start, timeout=POLL_S)[1] or ""
        except subprocess.TimeoutExpired:
            start = None
            monitor.poll()
            if hangs:
                process.kill()


def join_checks(values: ReplayCheck, stops: ReplayCheck) -> ReplayCheck:
    """Join the comparison of values with the results of marks and memory."""
    return msgspec.structs.replace(
        values,
        stops=stops.stops,
        memory=stops.memory,
        gaps=(*values.gaps, *stops.gaps),
    )
