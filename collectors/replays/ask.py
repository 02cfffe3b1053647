"""Check a workload's replays in a separate process, without importing torch."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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


def check_workload(request: DoctorRequest, scratch: Path) -> CheckedWorkload:
    """Check the replays of a workload's step in a separate process.

    A process whose replay hangs is ended after the hang is known.

    Raises:
        GraphvizDashError: The workload is invalid.
    """
    hangs: list[ReplayStop] = []
    with create_marks_folder(scratch) as folder:
        file = scratch / "replays-request.json"
        file.write_bytes(msgspec.json.encode(msgspec.structs.replace(request, marks=str(folder))))
        process = subprocess.Popen(
            [*PYTHON, "-m", "collectors.replays.worker", str(file)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=os.environ | SAFE_PATH | {PARENT: str(os.getpid())},
        )
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
    """Wait for a process, reading its marks, and end it after a hang. Returns its stderr."""
    while True:
        try:
            return process.communicate(timeout=POLL_S)[1] or ""
        except subprocess.TimeoutExpired:
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
