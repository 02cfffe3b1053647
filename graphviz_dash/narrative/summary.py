"""Text of a comparison that page, terminal and report share."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.analysis.metrics.kernel_table import KernelTable
from graphviz_dash.analysis.metrics.registry import Metric
from graphviz_dash.model.run import Manifest
from graphviz_dash.narrative.memory_change import list_memory_changes
from graphviz_dash.narrative.numbers import format_spread
from graphviz_dash.units import format_bytes, pluralize

_TILE_LABELS: Final = {
    "speedup": "Speedup",
    "recorded_speedup": "Speedup, recorded loop",
    "recorded_step": "Median step, recorded loop",
    "recorded_mean": "Mean step, recorded loop",
    "step_time": "Step time",
    "launch_cpu_time": "Launch CPU time",
    "break_even": "Break-even replays",
}
"""Metrics at the top of a comparison, with their labels."""

MAIN_METRICS: Final = (
    "step_time",
    "recorded_step",
    "recorded_mean",
    "speedup",
    "recorded_speedup",
    "launch_cpu_time",
    "launches",
    "gpu_busy",
    "graph_time_share",
    "break_even",
    "peak_reserved_change",
    "device_memory_change",
    "iterate_reserved_change",
)
"""Metrics shown first, on pages and on the terminal."""

_STEP_METRICS: Final = frozenset({"speedup", "recorded_speedup", "step_saving", "recorded_saving"})
"""Metrics without meaning if replays compute a different result."""


class Tile(Struct, frozen=True):
    """Metric at the top of a comparison."""

    metric: str
    label: str
    value: str
    """With its unit; a change has its sign."""
    note: str
    """The baseline's figure, the spread, or a reference; empty if there is none."""
    is_invalid: bool = False
    """True if replays compute a different result."""


def build_summary_tiles(comparison: Comparison, run: RunComparison) -> tuple[Tile, ...]:
    """Build the tiles of ``run`` against its baseline; missing metrics are omitted."""
    baseline = comparison[run.baseline] if run.baseline else None
    tiles = []
    for metric, label in _TILE_LABELS.items():
        figure = run[metric]
        if figure.value is None:
            continue
        note = _format_tile_note(metric, run, baseline) or format_spread(figure)
        doubted = metric in _STEP_METRICS and not run.replays_match
        tiles.append(Tile(metric, label, figure.text, note, doubted))
    return (*tiles, *build_memory_tiles(run))


def build_memory_tiles(run: RunComparison) -> tuple[Tile, ...]:
    """Build the tiles of both memory changes of ``run``."""
    return tuple(
        Tile(item.metric, item.label, item.text, f"of {item.total.text}")
        for item in list_memory_changes(run)
    )


def _format_tile_note(metric: str, run: RunComparison, baseline: RunComparison | None) -> str:
    if metric in _STEP_METRICS and not run.replays_match:
        return "replays compute a different result"
    if metric == "break_even":
        return f"one-time cost {run['one_off_cost'].text}"
    if baseline is None or baseline[metric].value is None:
        return ""
    return f"{baseline.name} {baseline[metric].text}"


def format_metric_title(metric: Metric) -> str:
    """Return the metric's title, marked if it is an estimate."""
    return f"{metric.title}, est." if metric.estimate else metric.title


def format_break_even_title(run: RunComparison) -> str:
    """Return the heading of a run's break-even."""
    return f"Break-even of {run.name}"


def list_provenance(comparison: Comparison) -> tuple[str, ...]:
    """List workload, machine and date of the runs, one line for all that agree."""
    return tuple(dict.fromkeys(_format_provenance(run.run.manifest) for run in comparison.runs))


def _format_provenance(manifest: Manifest) -> str:
    machine = manifest.environment
    memory = "" if machine.gpu is None else f" ({format_bytes(machine.gpu.memory_bytes)})"
    return (
        f"{manifest.workload.name} on {machine.gpu_name}{memory}, "
        f"driver {machine.driver or 'unknown'}, CUDA {machine.cuda_runtime or 'unknown'}, "
        f"torch {machine.torch or 'unknown'}, {machine.cpu or 'CPU unknown'}, "
        f"{manifest.recording_day or 'date unknown'}"
    )


def explain_rare_kernels(table: KernelTable) -> str:
    """Explain the zero median of rare kernels; empty if there are none."""
    if not table.has_rare_kernels:
        return ""
    return (
        "A kernel in fewer than half of the steps has a median of 0: if steps differ, the sums "
        "are too low."
    )


def explain_unlisted_kernels(table: KernelTable) -> str:
    """Explain the zero median of rare kernels and count the omitted ones."""
    omitted = len(table.rows) - len(table.usual_rows)
    if not omitted:
        return explain_rare_kernels(table)
    verb = "is" if omitted == 1 else "are"
    return (
        f"{explain_rare_kernels(table)} {pluralize(omitted, 'kernel')} with a median of 0 in "
        "every run "
        f"{verb} not listed."
    )
