"""The costs of launching graphs on one machine in a few figures."""

from __future__ import annotations

from graphviz_dash.analysis.launch.launch_costs import LaunchCosts
from graphviz_dash.model.launch import LaunchMeasure
from graphviz_dash.narrative.launch import (
    interval_text,
)
from graphviz_dash.ui.page.widgets import tiles
from graphviz_dash.units import format_count, format_ns


def launch_tiles(costs: LaunchCosts) -> str:
    """The fits of the most asked measures as tiles, as far as they were recorded."""
    repeat = costs.lines.get(LaunchMeasure.REPEAT_LAUNCH_CPU)
    instantiate = costs.lines.get(LaunchMeasure.INSTANTIATION)
    device = costs.lines.get(LaunchMeasure.REPEAT_LAUNCH_DEVICE)
    cells = []
    if repeat is not None:
        until = f"up to {format_count(repeat.knee)} nodes" if repeat.knee else "at no nodes"
        cells.append(("Repeat launch, CPU", format_ns(repeat.base_ns), until))
        cells.append(
            (
                "Per extra node",
                f"{repeat.slope_ns:.2f} ns",
                f"95%: {interval_text(repeat.slope_interval)}",
            )
        )
    if costs.root is not None:
        cells.append(
            (
                "Per extra root",
                format_ns(costs.root.ns),
                f"95%: {interval_text(costs.root.interval)}",
            )
        )
    if instantiate is not None:
        cells.append(
            ("Instantiation per node", format_ns(instantiate.slope_ns), "of a linear chain")
        )
    if device is not None:
        cells.append(("GPU time per node", format_ns(device.slope_ns), "an empty kernel"))
    return tiles(cells)
