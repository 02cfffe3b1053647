"""Recordings of launch costs of known truth."""

from __future__ import annotations

import random
from collections.abc import Callable

from graphviz_dash.model.launch import LaunchMeasure, LaunchRecording, LaunchSeries, Topology
from tests.analysis.frames import ENVIRONMENT

LENGTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
REPEAT = LaunchMeasure.REPEAT_LAUNCH_CPU


def series(
    topology: Topology, truth: float, *, trials: int = 40, noise: float = 0.02
) -> LaunchSeries:
    """Samples around ``truth`` ns, equal for equal topologies."""
    source = random.Random(repr(topology))
    values = tuple(max(1, round(truth * source.gauss(1, noise))) for _ in range(trials))
    return LaunchSeries(topology, {REPEAT: values}, {LaunchMeasure.UPLOAD_CPU: "not tried"})


def recording(*listed: LaunchSeries, complete: bool = True) -> LaunchRecording:
    return LaunchRecording(
        format="graphviz-dash-launch",
        version=1,
        tool_version="1",
        created="2026-01-02T03:04:05+00:00",
        command=("graphviz-dash", "bench", "launch"),
        environment=ENVIRONMENT,
        trials=40,
        complete=complete,
        call_ns=(140, 150, 160),
        clock_ns=(50, 60, 70),
        series=listed,
    )


def lines(time_of: Callable[[int], float], noise: float = 0.02) -> list[LaunchSeries]:
    """Linear chains whose repeat launch takes ``time_of(nodes)`` ns."""
    return [
        series(Topology(1, length, False, None, length), time_of(length), noise=noise)
        for length in LENGTHS
    ]
