"""A recording of launch costs: the same graphs measured in one process after another.

Within a process launch times repeat closely; from one process to the next they differ more, since
memory, streams and channels lie elsewhere. A spread that is to hold for the next recording must
have seen several.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from collectors.launch.requests import Measured, Request
from collectors.process.lifeline import PARENT
from graphviz_dash.errors import GraphvizDashError, printable
from graphviz_dash.model.launch import LaunchMeasure, LaunchSeries, Topology

COMMAND: Final = (sys.executable, "-m", "collectors.launch.run")

_END_S: Final = 30.0
"""How long an interrupted process may take to end its trial and write what it has."""


def measure(
    wanted: Sequence[Topology], trials: int, processes: int, report: Callable[[str], None]
) -> Measured:
    """``trials`` of each graph in each of ``processes`` processes, their samples in that order.

    An interrupt ends it early with what there is by then. ``report`` gets a line for each process.

    Raises:
        GraphvizDashError: a process failed; the message says how.
    """
    measured: list[Measured] = []
    for number in range(processes):
        outcome = run_process(wanted, trials)
        measured += [outcome] if outcome is not None else []
        if outcome is None or not outcome.whole:
            break
        report(f"{number + 1} of {processes} processes, {trials} trials each")
    return joined(measured, len(measured) == processes)


def run_process(wanted: Sequence[Topology], trials: int) -> Measured | None:
    """What one process measured; None where an interrupt came before it had anything."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "measured.json"
        request = Path(folder) / "request.json"
        request.write_bytes(msgspec.json.encode(Request(tuple(wanted), trials, str(out))))
        environment = os.environ | {PARENT: str(os.getpid())}
        with subprocess.Popen(
            [*COMMAND, str(request)], stderr=subprocess.PIPE, text=True, env=environment
        ) as process:
            interrupted = False
            try:
                _, stderr = process.communicate()
            except KeyboardInterrupt:
                # From a terminal it has the signal already; a second one changes nothing.
                interrupted = True
                process.send_signal(signal.SIGINT)
                try:
                    _, stderr = process.communicate(timeout=_END_S)
                except subprocess.TimeoutExpired:
                    stderr = ""
            finally:
                process.kill()
        if out.exists():
            return msgspec.json.decode(out.read_bytes(), type=Measured)
        if interrupted:
            return None
        last = (stderr.strip().splitlines() or [f"it ended with code {process.returncode}"])[-1]
        raise GraphvizDashError(printable(f"Launches could not be measured: {last}"))


def joined(processes: Sequence[Measured], whole: bool) -> Measured:
    """The samples of all processes in their order. A measure that one process could not take of a
    graph is left out of it, with the reason, so that samples can be told apart by process."""
    series: dict[Topology, LaunchSeries] = {}
    for process in processes:
        for row in process.series:
            earlier = series.get(row.topology)
            series[row.topology] = row if earlier is None else _after(earlier, row)
    return Measured(
        whole and all(process.whole for process in processes),
        tuple(value for process in processes for value in process.call_ns),
        tuple(value for process in processes for value in process.clock_ns),
        tuple(series.values()),
    )


def _after(earlier: LaunchSeries, later: LaunchSeries) -> LaunchSeries:
    both: dict[LaunchMeasure, tuple[int, ...]] = {
        kind: earlier.samples[kind] + later.samples[kind]
        for kind in earlier.samples
        if kind in later.samples
    }
    absent = {**earlier.absent, **later.absent}
    return LaunchSeries(earlier.topology, both, absent)
