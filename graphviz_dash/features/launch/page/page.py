"""Launch: what launching graphs costs on a machine, by size and shape."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from graphviz_dash.bundle.launch import read_launch
from graphviz_dash.errors import InputError
from graphviz_dash.features.launch.analysis.launch_costs import LaunchCosts, launch_costs
from graphviz_dash.features.launch.analysis.own_graphs import OwnGraph, own_graphs
from graphviz_dash.features.launch.narrative import (
    costs_sentence,
    extra_sentences,
    machine_sentence,
)
from graphviz_dash.features.launch.page.launch import (
    comparison_panel,
    own_answer,
    own_table,
    published_panel,
)
from graphviz_dash.features.launch.page.launch_graph import launch_graph
from graphviz_dash.features.launch.page.launch_tables import fits_table, launch_tiles, medians_table
from graphviz_dash.features.launch.page.observers import observer_panel
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import chosen_entry, dim_empty, empty, trouble
from graphviz_dash.ui.page.help import page_heading
from graphviz_dash.ui.page.markup import element, show, text
from graphviz_dash.ui.state.catalogue import Entry, launches
from graphviz_dash.ui.state.store import STORE


def render() -> None:
    """The page."""
    launch_paths = launches()
    names = [*launch_paths]
    wanted = names[:1] if len(names) == 1 else _several(names)
    recordings: dict[str, LaunchCosts] = {}
    for name in wanted:
        try:
            recordings[name] = _costs(*_version(launch_paths[name]))
        except InputError as error:
            trouble("This recording cannot be read", str(error))
    entry = chosen_entry()
    if entry is not None:
        dim_empty(entry)
    own = _own(entry, launch_paths, recordings) if entry is not None else ()
    if recordings:
        first = next(iter(recordings.values()))
        show(
            page_heading("launch", "Launch costs"),
            element("p", text(_machines(first, entry)), "sentence"),
            element("p", text(costs_sentence(first)), "sentence"),
        )
        if entry is not None:
            own_answer(entry.name, own)
        made_of = [part for name in recordings for part in (name, *_version(launch_paths[name]))]
        launch_graph(recordings, own, (entry.key if entry else "", *map(str, made_of)))
        with st.expander("What each node and root adds"):
            show(launch_tiles(first))
            show(element("p", text(" ".join(extra_sentences(first))), "said"))
        own_table(own)
    else:
        empty(
            "No recording of launch costs yet",
            "Make one on a machine with a CUDA GPU; it takes less than two minutes:",
            "graphviz-dash bench launch -o experiments/launch",
        )
        if entry is not None:
            own_answer(entry.name, own)
            own_table(own)
    if entry is not None:
        observer_panel(entry)
    if not recordings:
        return
    comparison_panel(recordings)
    published_panel(recordings)
    for name, costs in recordings.items():
        fits_table(name, costs)
        medians_table(name, costs)
    st.caption(
        "Timed through cuda-python in processes to which no profiler was attached, following "
        "NVIDIA's sample cudaGraphsPerfScaling: empty kernels, captured from streams. Error bars "
        "are the middle 90% of all samples (5th to 95th percentile). Hover a heading for what "
        "it times."
    )


def _machines(costs: LaunchCosts, entry: Entry | None) -> str:
    """Whose figures these are, and whose the chosen experiment's runs."""
    try:
        runs = STORE.outlines(entry.key) if entry is not None else ()
    except InputError:
        runs = ()
    machines = (run.manifest.environment for run in runs)
    return machine_sentence(costs.recording.environment, machines)


def _own(
    entry: Entry, launch_paths: dict[str, Path], recordings: dict[str, LaunchCosts]
) -> tuple[OwnGraph, ...]:
    """The graphs of an experiment beside chains of any recording that can be read."""
    references = dict(recordings)
    for name, path in launch_paths.items():
        if name not in references:
            try:
                references[name] = _costs(*_version(path))
            except InputError:
                continue
    versions = tuple((name, *_version(path)) for name, path in launch_paths.items())
    try:
        # Without the traces, which tell nothing of launches.
        return STORE.derived_bare(
            entry.key,
            ("own graphs", versions, tuple(references)),
            lambda experiment: own_graphs(experiment, references),
        )
    except InputError as error:
        trouble("This experiment cannot be read", str(error))
        return ()


def _version(path: Path) -> tuple[str, int]:
    """A recording as it is now."""
    return str(path), path.stat().st_mtime_ns


# Frozen: shared as it is, where a copy for each page would take 6 ms to make.
@st.cache_resource(max_entries=32, show_spinner="Reading the recording")
def _costs(path: str, changed_ns: int) -> LaunchCosts:
    return launch_costs(read_launch(Path(path)))


def _several(names: list[str]) -> list[str]:
    return url_state.choose_several("recording", "Recordings", names, names[:1])
