"""Launch: launch cost of graphs on a machine, by size and shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import streamlit as st

from graphviz_dash.bundle.launch import read_launch
from graphviz_dash.bundle.references import read_published_launch
from graphviz_dash.charts.shades import Theme
from graphviz_dash.errors import InputError
from graphviz_dash.features.launch.analysis.launch_costs import LaunchCosts, analyze_launch_costs
from graphviz_dash.features.launch.analysis.own_graphs import ProgramGraph, list_program_graphs
from graphviz_dash.features.launch.charts.launch import draw_launch_costs
from graphviz_dash.features.launch.columns import FIT_COLUMNS, list_fit_rows
from graphviz_dash.features.launch.narrative import (
    MEASURE_MEANINGS,
    MEASURE_TITLES,
    NO_OWN_GRAPHS,
    describe_extra_costs,
    describe_launch_costs,
    describe_machines,
    format_chain_family,
    format_interval,
    summarize_launch_costs,
    summarize_verdicts,
)
from graphviz_dash.features.launch.page.launch import (
    show_comparison_panel,
    show_graphs_table,
    show_published_panel,
)
from graphviz_dash.features.launch.page.observers import show_observer_panel
from graphviz_dash.model.launch import LaunchMeasure
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import (
    dim_empty_pages,
    draw_figure,
    find_selected_entry,
    flush_to_browser,
    get_theme,
    show_empty_state,
    show_error_panel,
    show_fold,
)
from graphviz_dash.ui.page.help import format_page_heading
from graphviz_dash.ui.page.markup import (
    escape_markdown,
    format_text,
    show_caption,
    show_markup,
    show_paragraph,
)
from graphviz_dash.ui.page.tables import show_rows
from graphviz_dash.ui.page.widgets import format_tiles
from graphviz_dash.ui.state.catalogue import Entry, list_launches
from graphviz_dash.ui.state.store import STORE, Extent
from graphviz_dash.units import format_count, format_ns


def render() -> None:
    """Render the page."""
    launch_paths = list_launches()
    names = [*launch_paths]
    selected_names = names[:1] if len(names) == 1 else _select_recordings(names)
    recordings: dict[str, LaunchCosts] = {}
    for name in selected_names:
        try:
            recordings[name] = _load_costs(*_get_version(launch_paths[name]))
        except InputError as error:
            show_error_panel("Recording cannot be read", str(error))
    entry = find_selected_entry()
    if entry is not None:
        dim_empty_pages(entry)
    graphs = _get_experiment_graphs(entry, launch_paths, recordings) if entry is not None else ()
    if recordings:
        first = next(iter(recordings.values()))
        show_markup(
            format_page_heading("launch", _format_title(entry, graphs)),
            format_text("p", _describe_launches(first, entry, graphs), "answer"),
        )
        cache_key = [
            part for name in recordings for part in (name, *_get_version(launch_paths[name]))
        ]
        show_launch_graph(recordings, graphs, (entry.key if entry else "", *map(str, cache_key)))
        with st.expander("Cost per node and root"):
            sentences = (_describe_machines(first, entry), describe_launch_costs(first))
            texts = (*sentences, " ".join(describe_extra_costs(first)))
            show_markup(
                *(format_text("p", text, "said") for text in texts),
                format_launch_tiles(first),
            )
        if entry is not None:
            show_graphs_table(entry.name, graphs)
            if not graphs:
                show_caption(NO_OWN_GRAPHS)
    else:
        show_empty_state(
            "No launch cost recording",
            "Record launch costs on a machine with a CUDA GPU (less than two minutes):",
            "graphviz-dash bench launch -o experiments/launch",
        )
        if entry is not None and graphs:
            verdict = f"{entry.name}: {summarize_verdicts(graphs)}"
            show_paragraph(verdict, "sentence")
            show_graphs_table(entry.name, graphs)
    if entry is not None:
        show_fold("Profiler overhead", "observers", lambda: show_observer_panel(entry))
    if not recordings:
        return
    show_comparison_panel(recordings)
    show_published_panel(recordings)
    for name, costs in recordings.items():
        show_fits_table(name, costs)
    st.caption(
        "Timed with cuda-python in processes without a profiler, following NVIDIA's sample "
        "cudaGraphsPerfScaling: empty kernels, captured from streams. Error bars show the "
        "middle 90% of all samples (5th to 95th percentile). Hover over a heading for its "
        "definition."
    )


def _format_title(entry: Entry | None, graphs: tuple[ProgramGraph, ...]) -> str:
    return "Launch costs" if entry is None or not graphs else f"Launch costs of {entry.name}"


def _describe_launches(
    costs: LaunchCosts, entry: Entry | None, graphs: tuple[ProgramGraph, ...]
) -> str:
    """Compare an experiment's launches with the possible, or describe the machine's costs."""
    if graphs and entry is not None:
        return summarize_verdicts(graphs)
    return summarize_launch_costs(costs)


def _describe_machines(costs: LaunchCosts, entry: Entry | None) -> str:
    try:
        runs = (
            STORE.load_experiment_of_key(entry.key, Extent.OUTLINE).runs
            if entry is not None
            else ()
        )
    except InputError:
        runs = ()
    machines = (run.manifest.environment for run in runs)
    return describe_machines(costs.recording.environment, machines)


def _get_experiment_graphs(
    entry: Entry, launch_paths: dict[str, Path], recordings: dict[str, LaunchCosts]
) -> tuple[ProgramGraph, ...]:
    """Compare with chains of any readable recording."""
    references = dict(recordings)
    for name, path in launch_paths.items():
        if name not in references:
            try:
                references[name] = _load_costs(*_get_version(path))
            except InputError:
                continue
    versions = tuple((name, *_get_version(path)) for name, path in launch_paths.items())
    try:
        # The traces are not needed for launches.
        return STORE.derive(
            entry.key,
            ("own graphs", versions, tuple(references)),
            lambda experiment: list_program_graphs(experiment, references),
            Extent.NO_TRACES,
        )
    except InputError as error:
        show_error_panel("Experiment cannot be read", str(error))
        return ()


def _get_version(path: Path) -> tuple[str, int]:
    return str(path), path.stat().st_mtime_ns


# Shared and frozen; a copy per page would cost 6 ms.
@st.cache_resource(max_entries=32, show_spinner="Loading the recording")
def _load_costs(path: str, changed_ns: int) -> LaunchCosts:
    return analyze_launch_costs(read_launch(Path(path)))


def _select_recordings(names: list[str]) -> list[str]:
    return url_state.select_several("recording", "Recordings", names, names[:1])


def format_launch_tiles(costs: LaunchCosts) -> str:
    """Format fits of the main measures as tiles, if recorded."""
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
    """Show fits over linear chains, and of the launch over parallel chains, folded."""
    show_fold(
        f"Fits of {escape_markdown(name)}: base and slope with 95% intervals",
        f"fits-{name}",
        lambda: _show_fits(costs),
    )


def _show_fits(costs: LaunchCosts) -> None:
    chains = {format_chain_family(family): fits for family, fits in costs.chains.items()}
    families = {"linear chains": costs.lines, **chains}
    rows = [row for title, fits in families.items() for row in list_fit_rows(title, fits)]
    show_rows(FIT_COLUMNS, rows, "Base, slope and knee of every measure with their intervals")


_LOG, _LINEAR = "logarithmic", "linear"
_OWN, _PUBLISHED = "your graphs", "published"
_MEASURES: Final = {title: measure for measure, title in MEASURE_TITLES.items()}


def show_launch_graph(
    recordings: dict[str, LaunchCosts], graphs: tuple[ProgramGraph, ...], cache_key: tuple[str, ...]
) -> None:
    """Draw the chart of ``recordings`` with an experiment's graphs; ``cache_key`` covers both."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        standard = MEASURE_TITLES[LaunchMeasure.REPEAT_LAUNCH_CPU]
        title = url_state.select_option(
            "measure", "Measure", [*_MEASURES], default=standard, width=260
        )
        scale = url_state.select_option("scale", "Scale", [_LOG, _LINEAR])
        overlays = url_state.select_several("beside", "Overlay", [_OWN, _PUBLISHED], [_OWN])
    measure = _MEASURES[title]
    figure = _build_figure(
        cache_key, measure, get_theme(), scale, tuple(overlays), recordings, graphs
    )
    if figure is None:
        show_empty_state(
            "Not measured", f"No recording has samples of: {MEASURE_MEANINGS[measure]}."
        )
        return
    draw_figure(figure, "launch")
    flush_to_browser()
    st.caption(f"{title}: {MEASURE_MEANINGS[measure]}.")


# Cached because building a Plotly figure costs 30 ms; shared read-only.
@st.cache_resource(max_entries=32, show_spinner=False)
def _build_figure(
    cache_key: tuple[str, ...],
    measure: LaunchMeasure,
    theme: Theme,
    scale: str,
    overlays: tuple[str, ...],
    _recordings: dict[str, LaunchCosts],
    _graphs: tuple[ProgramGraph, ...],
) -> Any:
    return draw_launch_costs(
        _recordings,
        measure,
        theme,
        log=scale == _LOG,
        program_graphs=_graphs if _OWN in overlays else (),
        published=read_published_launch() if _PUBLISHED in overlays else None,
    )
