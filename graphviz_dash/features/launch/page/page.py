"""Launch: launch cost of graphs on a machine, by size and shape."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from graphviz_dash.bundle.launch import read_launch
from graphviz_dash.errors import InputError
from graphviz_dash.features.launch.analysis.launch_costs import LaunchCosts, analyze_launch_costs
from graphviz_dash.features.launch.analysis.own_graphs import ProgramGraph, list_program_graphs
from graphviz_dash.features.launch.narrative import (
    NO_OWN_GRAPHS,
    describe_extra_costs,
    describe_launch_costs,
    describe_machines,
    summarize_launch_costs,
    summarize_verdicts,
)
from graphviz_dash.features.launch.page.launch import (
    show_comparison_panel,
    show_graphs_table,
    show_published_panel,
)
from graphviz_dash.features.launch.page.launch_graph import show_launch_graph
from graphviz_dash.features.launch.page.launch_tables import (
    format_launch_tiles,
    show_fits_table,
)
from graphviz_dash.features.launch.page.observers import show_observer_panel
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import (
    dim_empty_pages,
    find_selected_entry,
    show_empty_state,
    show_error_panel,
)
from graphviz_dash.ui.page.help import format_page_heading
from graphviz_dash.ui.page.markup import (
    escape_html,
    escape_markdown,
    format_element,
    show_markup,
)
from graphviz_dash.ui.state.catalogue import Entry, list_launches
from graphviz_dash.ui.state.store import STORE, Extent


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
            format_page_heading("launch", escape_html(_format_title(entry, graphs))),
            format_element("p", escape_html(_describe_launches(first, entry, graphs)), "answer"),
        )
        cache_key = [
            part for name in recordings for part in (name, *_get_version(launch_paths[name]))
        ]
        show_launch_graph(recordings, graphs, (entry.key if entry else "", *map(str, cache_key)))
        with st.expander("Cost per node and root"):
            sentences = (_describe_machines(first, entry), describe_launch_costs(first))
            texts = (*sentences, " ".join(describe_extra_costs(first)))
            show_markup(
                *(format_element("p", escape_html(text), "said") for text in texts),
                format_launch_tiles(first),
            )
        if entry is not None:
            show_graphs_table(entry.name, graphs)
            if not graphs:
                st.caption(escape_markdown(NO_OWN_GRAPHS))
    else:
        show_empty_state(
            "No launch cost recording",
            "Record launch costs on a machine with a CUDA GPU (less than two minutes):",
            "graphviz-dash bench launch -o experiments/launch",
        )
        if entry is not None and graphs:
            verdict = f"{entry.name}: {summarize_verdicts(graphs)}"
            show_markup(format_element("p", escape_html(verdict), "sentence"))
            show_graphs_table(entry.name, graphs)
    if entry is not None:
        with st.expander("Profiler overhead"):
            show_observer_panel(entry)
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
    """Describe whether the launches of an experiment are as cheap as they can be, or the launch
    costs of the machine."""
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
    """Return an experiment's graphs next to chains of any readable recording."""
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
