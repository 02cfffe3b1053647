"""Launch: what launching graphs costs on a machine, by size and shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import streamlit as st

from graphviz_dash.analysis.launch.launch_comparison import compare_launches
from graphviz_dash.analysis.launch.launch_costs import LaunchCosts, launch_costs
from graphviz_dash.analysis.launch.own_graphs import OwnGraph, own_graphs
from graphviz_dash.bundle.launch import read_launch
from graphviz_dash.bundle.references import published_launch
from graphviz_dash.charts.figures.launch import launch_chart
from graphviz_dash.errors import InputError
from graphviz_dash.model.launch import LaunchMeasure
from graphviz_dash.narrative.launch import (
    MEASURE_MEANINGS,
    MEASURE_TITLES,
    costs_sentence,
    extra_sentences,
    family_name,
    interval_text,
    topology_name,
)
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import chosen_entry, draw, empty, theme, trouble
from graphviz_dash.ui.page.markup import element, plain, show, text
from graphviz_dash.ui.page.widgets import tiles
from graphviz_dash.ui.panels.launch import (
    comparison_panel,
    observer_panel,
    own_panel,
    published_panel,
)
from graphviz_dash.ui.state.catalogue import Entry, launches
from graphviz_dash.ui.state.store import STORE
from graphviz_dash.units import format_count, format_ns

_LOG, _LINEAR = "logarithmic", "linear"
_OWN, _PUBLISHED = "your graphs", "published"
_MEASURES: Final = {title: measure for measure, title in MEASURE_TITLES.items()}


def render() -> None:
    """The page."""
    found = launches()
    names = [*found]
    wanted = names[:1] if len(names) == 1 else _several(names)
    recordings: dict[str, LaunchCosts] = {}
    for name in wanted:
        try:
            recordings[name] = _costs(str(found[name]), found[name].stat().st_mtime_ns)
        except InputError as error:
            trouble("This recording cannot be read", str(error))
    entry = chosen_entry()
    own = _own(entry, found, recordings) if entry is not None else ()
    if recordings:
        first = next(iter(recordings.values()))
        show(element("h1", "Launch costs"), element("p", text(costs_sentence(first)), "sentence"))
        show(_tiles(first))
        _chart(recordings, own)
        show(element("p", text(" ".join(extra_sentences(first))), "said"))
    else:
        empty(
            "No recording of launch costs yet",
            "Make one on a machine with a CUDA GPU; it takes less than two minutes:",
            "graphviz-dash bench launch -o experiments/launch",
        )
    if entry is not None:
        own_panel(entry.name, own)
        observer_panel(entry)
    if not recordings:
        return
    comparison_panel(compare_launches(recordings))
    published_panel(recordings)
    for name, costs in recordings.items():
        _fits(name, costs)
        _table(name, costs)
    st.caption(
        "Timed through cuda-python in processes to which no profiler was attached, following "
        "NVIDIA's sample cudaGraphsPerfScaling: empty kernels, captured from streams. Error bars "
        "are the middle 90% of all samples (5th to 95th percentile). Hover a heading for what "
        "it times."
    )


def _own(
    entry: Entry, found: dict[str, Path], recordings: dict[str, LaunchCosts]
) -> tuple[OwnGraph, ...]:
    """The graphs of an experiment beside chains of any recording that can be read."""
    references = dict(recordings)
    for name, path in found.items():
        if name not in references:
            try:
                references[name] = _costs(str(path), path.stat().st_mtime_ns)
            except InputError:
                continue
    try:
        return own_graphs(STORE.experiment(entry.key), references)
    except InputError as error:
        trouble("This experiment cannot be read", str(error))
        return ()


@st.cache_data(max_entries=32, show_spinner="Reading the recording")
def _costs(path: str, _changed_ns: int) -> LaunchCosts:
    return launch_costs(read_launch(Path(path)))


def _several(names: list[str]) -> list[str]:
    return url_state.choose_several("recording", "Recordings", names, names[:1])


def _tiles(costs: LaunchCosts) -> str:
    repeat = costs.lines.get(LaunchMeasure.REPEAT_LAUNCH_CPU)
    instantiate = costs.lines.get(LaunchMeasure.INSTANTIATION)
    device = costs.lines.get(LaunchMeasure.REPEAT_LAUNCH_DEVICE)
    found = []
    if repeat is not None:
        until = f"up to {format_count(repeat.knee)} nodes" if repeat.knee else "at no nodes"
        found.append(("Repeat launch, CPU", format_ns(repeat.base_ns), until))
        found.append(
            (
                "Each node beyond",
                f"{repeat.slope_ns:.2f} ns",
                f"95%: {interval_text(repeat.slope_interval)}",
            )
        )
    if costs.root is not None:
        found.append(
            (
                "Each further root",
                format_ns(costs.root.ns),
                f"95%: {interval_text(costs.root.interval)}",
            )
        )
    if instantiate is not None:
        found.append(
            ("Instantiation, a node", format_ns(instantiate.slope_ns), "of a straight line")
        )
    if device is not None:
        found.append(("On the GPU, a node", format_ns(device.slope_ns), "an empty kernel"))
    return tiles(found)


def _chart(recordings: dict[str, LaunchCosts], own: tuple[OwnGraph, ...]) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        standard = MEASURE_TITLES[LaunchMeasure.REPEAT_LAUNCH_CPU]
        title = url_state.choose("measure", "Measure", [*_MEASURES], default=standard, width=260)
        scale = url_state.choose("scale", "Scale", [_LOG, _LINEAR])
        beside = url_state.choose_several("beside", "Beside", [_OWN, _PUBLISHED], [_OWN])
    measure = _MEASURES[title]
    figure = launch_chart(
        recordings,
        measure,
        theme(),
        log=scale == _LOG,
        own=own if _OWN in beside else (),
        published=published_launch() if _PUBLISHED in beside else None,
    )
    if figure is None:
        empty("Not measured", f"No recording has samples of: {MEASURE_MEANINGS[measure]}.")
        return
    draw(figure, "launch")
    st.caption(f"{title}: {MEASURE_MEANINGS[measure]}.")


def _fits(name: str, costs: LaunchCosts) -> None:
    """The fits as a table: every measure over lines, and the launch over chains."""
    with st.expander(f"How each measure of {plain(name)} grows: base and slope with 95% intervals"):
        chains = {family_name(family): fits for family, fits in costs.chains.items()}
        families = {"straight lines": costs.lines, **chains}
        rows = [
            (family, measure, fit)
            for family, fits in families.items()
            for measure, fit in fits.items()
        ]
        st.dataframe(
            {
                "Over": [family for family, _, _ in rows],
                "Measure": [MEASURE_TITLES[measure] for _, measure, _ in rows],
                "Base, us": [fit.base_ns / 1e3 for *_, fit in rows],
                "Base, 95%": [interval_text(fit.base_interval) for *_, fit in rows],
                "A node, ns": [fit.slope_ns for *_, fit in rows],
                "A node, 95%": [interval_text(fit.slope_interval) for *_, fit in rows],
                "From nodes": [fit.knee for *_, fit in rows],
                "From, 95%": [
                    f"{fit.knee_interval.low:,.0f} to {fit.knee_interval.high or 0:,.0f}"
                    for *_, fit in rows
                ],
            },
            hide_index=True,
            column_config={
                "Base, us": st.column_config.NumberColumn(format="%.2f"),
                "A node, ns": st.column_config.NumberColumn(format="%.2f"),
            },
            alt="Base, slope and knee of every measure with their intervals",
        )


def _table(name: str, costs: LaunchCosts) -> None:
    machine = costs.recording.environment
    st.header(f"Medians of {plain(name)}", anchor=False)
    whole = "" if costs.recording.complete else "; interrupted"
    st.caption(
        plain(
            f"{machine.gpu_name}, {machine.cpu}, driver {machine.driver or 'unknown'}, CUDA "
            f"{machine.cuda_runtime}, {costs.recording.created[:10]}{whole}"
        )
    )
    measures = [one for one in LaunchMeasure if any(one in row.timings for row in costs.rows)]
    data: dict[str, list[Any]] = {
        "Graph": [topology_name(row.topology) for row in costs.rows],
        "Nodes": [row.topology.nodes for row in costs.rows],
    }
    config: dict[str, Any] = {"Graph": st.column_config.TextColumn(pinned=True, width="medium")}
    for measure in measures:
        medians = [row.median(measure) for row in costs.rows]
        data[f"{MEASURE_TITLES[measure]}, us"] = [
            None if value is None else value / 1e3 for value in medians
        ]
        config[f"{MEASURE_TITLES[measure]}, us"] = st.column_config.NumberColumn(
            format="%.2f", help=MEASURE_MEANINGS[measure]
        )
    st.dataframe(
        data,
        column_config=config,
        hide_index=True,
        height="content" if len(costs.rows) < 18 else 640,
        placeholder="–",
        alt="Median of every measure for every graph",
    )
