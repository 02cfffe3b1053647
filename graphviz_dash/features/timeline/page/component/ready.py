"""Preparation of timelines: parts built once, and analyses that run while a timeline is shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from graphviz_dash.analysis.ranks.shared_steps import find_shared_steps
from graphviz_dash.features.graph.page.state.graphs import get_nodes
from graphviz_dash.features.timeline.view.run import (
    ChosenRun,
    RunTimeline,
    add_nodes,
    build_run_timeline,
)
from graphviz_dash.features.torch_compile.page.state import (
    get_compile_report,
    get_step_divider,
    get_step_lane,
    has_step_lane,
)
from graphviz_dash.features.torch_compile.timeline_lanes import CompiledStep
from graphviz_dash.model.run import Run
from graphviz_dash.ui.state.jobs import Task
from graphviz_dash.ui.state.results import (
    get_comparison,
    get_replays,
    get_traced_steps,
    has_replays,
)
from graphviz_dash.ui.state.store import STORE

_WORKERS: Final = 2


def load_timeline(key: str, run_name: str, *, nodes: bool = False) -> RunTimeline:
    """Return the timeline of a run, built once. Slices are matched to graph nodes if ``nodes`` is
    or was set.

    Raises:
        UnknownKeyError: no such experiment or run.
        InputError: the experiment cannot be read.
    """
    run = STORE.get_run(key, run_name)
    shared = STORE.derive(key, "shared steps", find_shared_steps).get(run_name)
    run_steps = get_traced_steps(key, run_name)
    base = STORE.derive(
        key, ("timeline", run_name), lambda _: build_run_timeline(run, shared, run_steps)
    )
    if not nodes and not has_replays(key, run_name):
        return base
    matched = get_replays(key, run_name)
    return STORE.derive(key, ("timeline nodes", run_name), lambda _: add_nodes(base, matched))


def prepare_timelines(key: str, run_names: Sequence[str]) -> None:
    """Prepare ``load_timeline``, two runs at a time. Raises as it does."""
    with ThreadPoolExecutor(_WORKERS) as pool:
        list(pool.map(partial(load_timeline, key), run_names))


def get_compiled_steps(key: str, runs: Sequence[ChosenRun]) -> dict[str, CompiledStep]:
    """Return compiled code of the chosen step, by run where known."""
    lanes = {
        choice.timeline.run: get_step_lane(key, choice.timeline.run, choice.step)
        for choice in runs
        if choice.step is not None and has_step_lane(key, choice.timeline.run)
    }
    return {name: lane for name, lane in lanes.items() if lane is not None}


def list_tasks(key: str, names: Sequence[str]) -> list[Task]:
    """List the missing analyses, most useful first."""
    missing: list[Task] = []
    traced = [run for run in (STORE.get_run(key, name) for name in names) if run.replay_trace]
    for run in traced:
        if not has_step_lane(key, run.name):
            missing.append(
                (f"Dividing the compiled step of {run.name}", _make_compile_task(key, run))
            )
    for run in traced:
        if run.graphs:
            missing.append((f"Matching kernels of {run.name} to nodes", _make_match_task(key, run)))
    if len(traced) > 1:
        missing.append(("Pairing work between the runs", lambda: get_comparison(key)))
    for run in traced:
        if run.graphs:
            missing.append((f"Finding operators of {run.name}", _make_table_task(key, run)))
    return missing


def _make_compile_task(key: str, run: Run) -> Callable[[], object]:
    return lambda: (get_compile_report(key, run.name), get_step_divider(key, run.name))


def _make_match_task(key: str, run: Run) -> Callable[[], object]:
    return lambda: load_timeline(key, run.name, nodes=True)


def _make_table_task(key: str, run: Run) -> Callable[[], object]:
    return lambda: [get_nodes(key, run.name, graph.id) for graph in run.graphs]


def is_complete(key: str, names: Sequence[str]) -> bool:
    """Return whether all analyses of these runs are done."""
    traced = [run for run in (STORE.get_run(key, name) for name in names) if run.replay_trace]
    return (len(traced) < 2 or STORE.has(key, "comparison")) and all(
        has_replays(key, run.name)
        and has_step_lane(key, run.name)
        and all(STORE.has(key, ("nodes", run.name, graph.id)) for graph in run.graphs)
        for run in traced
    )
