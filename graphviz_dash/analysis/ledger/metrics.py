"""Two figures of a ledger that a build can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphviz_dash.analysis.ledger.memory import build_memory_ledger
from graphviz_dash.analysis.ledger.startup import build_startup_ledger
from graphviz_dash.analysis.metrics.registry import Better, Metric, Source, Unit

if TYPE_CHECKING:
    from graphviz_dash.model.run import Run

STARTUP_METRICS: Final = {
    metric.id: metric
    for metric in (
        Metric(
            "startup_memory",
            "Memory after start-up",
            Unit.BYTES,
            Source.RECORDED,
            Better.LOWER,
            "Device memory after the first useful replay, without that of other processes.",
        ),
        Metric(
            "startup_time",
            "Start-up time",
            Unit.NANOSECONDS,
            Source.RECORDED,
            Better.LOWER,
            "Wall time from the start of the process to the end of the first useful replay.",
        ),
    )
}


def measure_startup(run: Run) -> dict[str, int]:
    """Return the known figures of the run's ledger; empty without a complete one."""
    ledger = run.ledger
    if ledger is None or ledger.startup_end_ns is None:
        return {}
    figures = {"startup_time": build_startup_ledger(ledger).total_ns}
    memory = build_memory_ledger(ledger)
    if memory is not None:
        figures["startup_memory"] = memory.own_bytes
    return figures
