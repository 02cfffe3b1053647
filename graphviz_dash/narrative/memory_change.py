"""Memory change of a run under its two definitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from graphviz_dash.units import format_bytes

if TYPE_CHECKING:
    from graphviz_dash.analysis.comparison.result import RunComparison
    from graphviz_dash.analysis.metrics.run_metrics import MetricValue

PEAK_MEMORY: Final = "Peak memory"
"""Largest reservation of the allocator in the life of the process, warm-up and capture included."""
STEADY_MEMORY: Final = "Steady-state memory"
"""Memory while the step repeats: that of the process, or that of the allocator if unknown."""

_METRICS: Final = (
    (PEAK_MEMORY, "peak_reserved_change", "peak_reserved"),
    (STEADY_MEMORY, "device_memory_change", "device_memory"),
    (STEADY_MEMORY, "iterate_reserved_change", "iterate_reserved"),
)
"""Label, metric of the change and metric of the total; the first available one of each label."""


class MemoryChange(Struct, frozen=True):
    """Change of a run's memory relative to its baseline."""

    label: str
    metric: str
    change: MetricValue
    """Change in bytes."""
    total: MetricValue
    """Memory of the run in bytes."""

    @property
    def text(self) -> str:
        """The change with its sign, or ``unchanged``."""
        return format_change(self.change)


def list_memory_changes(run: RunComparison) -> tuple[MemoryChange, ...]:
    """List the known memory changes, peak first."""
    changes: dict[str, MemoryChange] = {}
    for label, metric, total in _METRICS:
        if label not in changes and run[metric].value is not None:
            changes[label] = MemoryChange(label, metric, run[metric], run[total])
    return tuple(changes.values())


def format_change(figure: MetricValue) -> str:
    """Format a signed change; 0 is "unchanged", as ``0 B`` would read as a total."""
    if not figure.value:
        return figure.text if figure.value is None else "unchanged"
    sign = "+" if figure.value > 0 else "-"
    return f"{sign}{format_bytes(abs(figure.value))}"
