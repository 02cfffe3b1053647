"""Preparation of timelines: parts built once, and analyses that run while a timeline is shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from graphviz_dash.analysis.ranks.shared_steps import shared_steps
from graphviz_dash.features.graph.page.state.graphs import nodes
from graphviz_dash.features.timeline.view.run import (
    ChosenRun,
    RunTimeline,
    run_timeline,
    with_nodes,
)
from graphviz_dash.features.torch_compile.page.state import (
    compiled,
    step_divider,
    step_lane,
    step_lane_known,
)
from graphviz_dash.features.torch_compile.timeline_lanes import CompiledStep
from graphviz_dash.model.run import Run
from graphviz_dash.ui.state.jobs import Task
from graphviz_dash.ui.state.results import comparison, replays, replays_known, traced_steps
from graphviz_dash.ui.state.store import STORE

_AT_ONCE: Final = 2


def timeline_of(key: str, run_name: str, *, nodes: bool = False) -> RunTimeline:
    """Return the timeline of a run, built once. Its slices are matched to graph nodes if that was
    requested before, or now if ``nodes`` is set.

    Raises:
        UnknownKeyError: no such experiment or run.
        InputError: the experiment cannot be read.
    """
    run = STORE.run(key, run_name)
    shared = STORE.derived(key, "shared steps", shared_steps).get(run_name)
    run_steps = traced_steps(key, run_name)
    base = STORE.derived(
        key, ("timeline", run_name), lambda _: run_timeline(run, shared, run_steps)
    )
    if not nodes and not replays_known(key, run_name):
        return base
    matched = replays(key, run_name)
    return STORE.derived(key, ("timeline nodes", run_name), lambda _: with_nodes(base, matched))


def make_ready(key: str, run_names: Sequence[str]) -> None:
    """Prepare ``timeline_of`` for these runs, two at a time. Raises as it does."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(partial(timeline_of, key), run_names))


def compiled_steps(key: str, runs: Sequence[ChosenRun]) -> dict[str, CompiledStep]:
    """Return the compiled code of the chosen step, by name of the runs where it is known."""
    lanes = {
        chosen.timeline.run: step_lane(key, chosen.timeline.run, chosen.step)
        for chosen in runs
        if chosen.step is not None and step_lane_known(key, chosen.timeline.run)
    }
    return {name: lane for name, lane in lanes.items() if lane is not None}


def tasks(key: str, names: Sequence[str]) -> list[Task]:
    """List the missing analyses of these runs, most useful first."""
    missing: list[Task] = []
    traced = [run for run in (STORE.run(key, name) for name in names) if run.replay_trace]
    for run in traced:
        if not step_lane_known(key, run.name):
            missing.append((f"Dividing the compiled step of {run.name}", _dividing(key, run)))
    for run in traced:
        if run.graphs:
            missing.append((f"Matching kernels of {run.name} to nodes", _matching(key, run)))
    if len(traced) > 1:
        missing.append(("Pairing work between the runs", lambda: comparison(key)))
    for run in traced:
        if run.graphs:
            missing.append((f"Finding operators of {run.name}", _tables(key, run)))
    return missing


def _dividing(key: str, run: Run) -> Callable[[], object]:
    return lambda: (compiled(key, run.name), step_divider(key, run.name))


def _matching(key: str, run: Run) -> Callable[[], object]:
    return lambda: timeline_of(key, run.name, nodes=True)


def _tables(key: str, run: Run) -> Callable[[], object]:
    return lambda: [nodes(key, run.name, graph.id) for graph in run.graphs]


def is_complete(key: str, names: Sequence[str]) -> bool:
    """Return whether all analyses of these runs are done."""
    traced = [run for run in (STORE.run(key, name) for name in names) if run.replay_trace]
    return (len(traced) < 2 or STORE.has(key, "comparison")) and all(
        replays_known(key, run.name)
        and step_lane_known(key, run.name)
        and all(STORE.has(key, ("nodes", run.name, graph.id)) for graph in run.graphs)
        for run in traced
    )
