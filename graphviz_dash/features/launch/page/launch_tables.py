"""Show launch costs of a recording: tiles, fits and medians."""

from __future__ import annotations

import streamlit as st

from graphviz_dash.features.launch.analysis.launch_costs import LaunchCosts
from graphviz_dash.features.launch.narrative import (
    MEASURE_TITLES,
    format_chain_family,
    format_interval,
)
from graphviz_dash.model.launch import LaunchMeasure
from graphviz_dash.ui.page.markup import escape_markdown
from graphviz_dash.ui.page.widgets import format_tiles
from graphviz_dash.units import format_count, format_ns


def format_launch_tiles(costs: LaunchCosts) -> str:
    """Format the fits of the main measures as tiles, if recorded."""
    repeat = costs.lines.get(LaunchMeasure.REPEAT_LAUNCH_CPU)
    instantiate = costs.lines.get(LaunchMeasure.INSTANTIATION)
    device = costs.lines.get(LaunchMeasure.REPEAT_LAUNCH_DEVICE)
    cells = []
    if repeat is not None:
        range_text = f"up to {format_count(repeat.knee)} nodes" if repeat.knee else "at no nodes"
        cells.append(("Repeat launch, CPU", format_ns(repeat.base_ns), range_text))
        cells.append(
            (
                "Per extra node",
                f"{repeat.slope_ns:.2f} ns",
                f"95%: {format_interval(repeat.slope_interval)}",
            )
        )
    if costs.root is not None:
        cells.append(
            (
                "Per extra root",
                format_ns(costs.root.ns),
                f"95%: {format_interval(costs.root.interval)}",
            )
        )
    if instantiate is not None:
        cells.append(
            ("Instantiation per node", format_ns(instantiate.slope_ns), "of a linear chain")
        )
    if device is not None:
        cells.append(("GPU time per node", format_ns(device.slope_ns), "an empty kernel"))
    return format_tiles(cells)


def show_fits_table(name: str, costs: LaunchCosts) -> None:
    """Show the fits of every measure over linear chains, and of the launch over parallel chains."""
    with st.expander(f"Fits of {escape_markdown(name)}: base and slope with 95% intervals"):
        chains = {format_chain_family(family): fits for family, fits in costs.chains.items()}
        families = {"linear chains": costs.lines, **chains}
        rows = [
            (family, measure, fit)
            for family, fits in families.items()
            for measure, fit in fits.items()
        ]
        st.dataframe(
            {
                "Topology": [family for family, _, _ in rows],
                "Measure": [MEASURE_TITLES[measure] for _, measure, _ in rows],
                "Base (µs)": [fit.base_ns / 1e3 for *_, fit in rows],
                "Base, 95%": [format_interval(fit.base_interval) for *_, fit in rows],
                "Per node (ns)": [fit.slope_ns for *_, fit in rows],
                "Per node, 95%": [format_interval(fit.slope_interval) for *_, fit in rows],
                "Knee (nodes)": [fit.knee for *_, fit in rows],
                "Knee, 95%": [
                    f"{fit.knee_interval.low:,.0f} to {fit.knee_interval.high or 0:,.0f}"
                    for *_, fit in rows
                ],
            },
            hide_index=True,
            column_config={
                "Base (µs)": st.column_config.NumberColumn(format="%.2f"),
                "Per node (ns)": st.column_config.NumberColumn(format="%.2f"),
            },
            alt="Base, slope and knee of every measure with their intervals",
        )
