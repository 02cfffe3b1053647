"""Measure the same graphs in one process after another.

Launch times vary more between processes than within one, so a spread needs several.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from collectors.launch.requests import LaunchRequest, LaunchResult
from collectors.process.lifeline import PARENT
from collectors.process.python import PYTHON, SAFE_PATH
from graphviz_dash.errors import GraphvizDashError, escape_control_characters
from graphviz_dash.model.launch import LaunchMeasure, LaunchSeries, Topology

COMMAND: Final = (*PYTHON, "-m", "collectors.launch.run")

_END_S: Final = 30.0
"""Time limit for an interrupted process to finish."""


def measure_in_processes(
    topologies: Sequence[Topology], trials: int, processes: int, report: Callable[[str], None]
) -> LaunchResult:
    """Measure ``trials`` of each graph in each process, with samples in order.

    An interrupt keeps the samples so far. ``report`` receives one line per process.

    Raises:
        GraphvizDashError: A process failed.
    """
    measured: list[LaunchResult] = []
    for number in range(processes):
        outcome = run_process(topologies, trials)
        measured += [outcome] if outcome is not None else []
        if outcome is None or not outcome.complete:
            break
        report(f"{number + 1} of {processes} processes, {trials} trials each")
    return join_results(measured, len(measured) == processes)


def run_process(topologies: Sequence[Topology], trials: int) -> LaunchResult | None:
    """Return the result of one process, or None if interrupted before the first result."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "measured.json"
        request = Path(folder) / "request.json"
        request.write_bytes(msgspec.json.encode(LaunchRequest(tuple(topologies), trials, str(out))))
        environment = os.environ | SAFE_PATH | {PARENT: str(os.getpid())}
        with subprocess.Popen(
            [*COMMAND, str(request)], stderr=subprocess.PIPE, text=True, env=environment
        ) as process:
            interrupted = False
            try:
                _, stderr = process.communicate()
            except KeyboardInterrupt:
                # A terminal has already sent the signal; a second one changes nothing.
                interrupted = True
                process.send_signal(signal.SIGINT)
                try:
                    _, stderr = process.communicate(timeout=_END_S)
                except subprocess.TimeoutExpired:
                    stderr = ""
            finally:
                process.kill()
        if out.exists():
            return msgspec.json.decode(out.read_bytes(), type=LaunchResult)
        if interrupted:
            return None
        last = (stderr.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
        raise GraphvizDashError(escape_control_characters(f"Launch measurement failed: {last}"))


def join_results(processes: Sequence[LaunchResult], complete: bool) -> LaunchResult:
    """Concatenate the samples of all processes.

    Drops measures missing in one process, so that samples map to processes.
    """
    series: dict[Topology, LaunchSeries] = {}
    for process in processes:
        for row in process.series:
            earlier = series.get(row.topology)
            series[row.topology] = row if earlier is None else _append_series(earlier, row)
    return LaunchResult(
        complete and all(process.complete for process in processes),
        tuple(value for process in processes for value in process.call_ns),
        tuple(value for process in processes for value in process.clock_ns),
        tuple(series.values()),
    )


def _append_series(earlier: LaunchSeries, later: LaunchSeries) -> LaunchSeries:
    samples: dict[LaunchMeasure, tuple[int, ...]] = {
        kind: earlier.samples[kind] + later.samples[kind]
        for kind in earlier.samples
        if kind in later.samples
    }
    absent = {**earlier.absent, **later.absent}
    return LaunchSeries(earlier.topology, samples, absent)
