"""What page, terminal and report all say of a comparison: its tiles, what the runs were made on,
the titles of metrics and of the break-even, and what its table of kernels leaves out.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.analysis.metrics.kernel_table import KernelTable
from graphviz_dash.analysis.metrics.registry import Metric
from graphviz_dash.analysis.metrics.run_metrics import Figure
from graphviz_dash.model.run import Manifest
from graphviz_dash.narrative.numbers import spread_text
from graphviz_dash.units import counted, format_bytes

_TILES: Final = {
    "speedup": "Speedup",
    "recorded_speedup": "Speedup in its loop",
    "recorded_step": "Step in its loop",
    "step_time": "Step time",
    "launch_cpu_time": "Launch CPU time",
    "break_even": "Break-even replays",
    "peak_reserved_change": "Peak memory",
}
"""The metrics that head a comparison, with their labels."""

_OF_THE_STEP: Final = frozenset(
    {"speedup", "recorded_speedup", "step_saving", "recorded_saving", "break_even"}
)
"""What says nothing where replays do other work than the step."""


class Tile(Struct, frozen=True):
    """A metric at the head of a comparison."""

    metric: str
    """Id of the metric in the registry."""
    label: str
    """What the tile is called."""
    value: str
    """The run's figure with its unit; a change has its sign."""
    note: str
    """The baseline's figure, the spread, or what the figure refers to; empty for none of them."""
    doubted: bool = False
    """Whether it says nothing, because replays do other work than the step."""


def summary_tiles(comparison: Comparison, run: RunComparison) -> tuple[Tile, ...]:
    """The tiles of ``run`` against its baseline; metrics that it does not have are left out."""
    baseline = comparison[run.baseline] if run.baseline else None
    tiles = []
    for metric, label in _TILES.items():
        figure = run[metric]
        if figure.value is None:
            continue
        value = signed_text(figure) if metric == "peak_reserved_change" else figure.text
        note = _tile_note(metric, run, baseline) or spread_text(figure)
        doubted = metric in _OF_THE_STEP and not run.replays_match
        tiles.append(Tile(metric, label, value, note, doubted))
    return tuple(tiles)


def _tile_note(metric: str, run: RunComparison, baseline: RunComparison | None) -> str:
    if metric in _OF_THE_STEP and not run.replays_match:
        return "replays do other work"
    if metric == "break_even":
        return f"for {run['one_off_cost'].text} spent once"
    if metric == "peak_reserved_change":
        return f"of {run['peak_reserved'].text} reserved"
    if baseline is None or baseline[metric].value is None:
        return ""
    return f"{baseline.name} {baseline[metric].text}"


def signed_text(figure: Figure) -> str:
    """A change with its sign, and none in words: ``0 B`` would read as what is held."""
    if not figure.value:
        return figure.text if figure.value is None else "unchanged"
    return f"+{figure.text}" if figure.value > 0 else figure.text


def metric_title(metric: Metric) -> str:
    """The metric's title; that of an estimate says so."""
    return f"{metric.title}, est." if metric.estimate else metric.title


def break_even_title(run: RunComparison) -> str:
    """The heading above the break-even of a run."""
    return f"Break-even of {run.name}"


def provenance(comparison: Comparison) -> tuple[str, ...]:
    """What the runs measured, on which machine and when: a line for all that agree."""
    return tuple(dict.fromkeys(_provenance(run.run.manifest) for run in comparison.runs))


def _provenance(manifest: Manifest) -> str:
    machine = manifest.environment
    memory = "" if machine.gpu is None else f" ({format_bytes(machine.gpu.memory_bytes)})"
    return (
        f"{manifest.workload.name} on {machine.gpu_name}{memory}, "
        f"driver {machine.driver or 'unknown'}, CUDA {machine.cuda_runtime or 'unknown'}, "
        f"torch {machine.torch or 'unknown'}, {machine.cpu or 'CPU unknown'}, "
        f"{manifest.measured[:10]}"
    )


def seldom_sentence(table: KernelTable) -> str:
    """What medians say of kernels that few steps run; empty where there are none such."""
    if not table.has_seldom:
        return ""
    return (
        "A kernel in fewer than half of the steps has a median of 0: where steps differ, the sums "
        "fall short."
    )


def unlisted_sentence(table: KernelTable) -> str:
    """The same, and how many kernels a list of the usual ones leaves out; empty where there are
    none such."""
    left_out = len(table.rows) - len(table.usual_rows)
    if not left_out:
        return seldom_sentence(table)
    verb = "is" if left_out == 1 else "are"
    return (
        f"{seldom_sentence(table)} {counted(left_out, 'kernel')} with a median of 0 in every run "
        f"{verb} not listed."
    )
