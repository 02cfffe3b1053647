"""The runs of a timeline made ready: what is built once, what is found out while it is shown."""

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
    """The timeline of a run of an opened experiment, built once. Its slices are matched to the
    nodes of graphs once somebody has asked for that, or now if ``nodes`` are needed.

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
    """Has ``timeline_of`` answer at once for these runs, two of which are made ready side by side;
    raises as it does."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(partial(timeline_of, key), run_names))


def compiled_steps(key: str, runs: Sequence[ChosenRun]) -> dict[str, CompiledStep]:
    """By run what its chosen step is for, of those where that is known to be compiled code."""
    lanes = {
        chosen.timeline.run: step_lane(key, chosen.timeline.run, chosen.step)
        for chosen in runs
        if chosen.step is not None and step_lane_known(key, chosen.timeline.run)
    }
    return {name: lane for name, lane in lanes.items() if lane is not None}


def tasks(key: str, names: Sequence[str]) -> list[Task]:
    """What is to be found out about these runs, in the order of what the reader misses most."""
    found: list[Task] = []
    traced = [run for run in (STORE.run(key, name) for name in names) if run.replay_trace]
    for run in traced:
        if not step_lane_known(key, run.name):
            found.append((f"Dividing the compiled step of {run.name}", _dividing(key, run)))
    for run in traced:
        if run.graphs:
            found.append((f"Matching kernels of {run.name} with nodes", _matching(key, run)))
    if len(traced) > 1:
        found.append(("Pairing the work of the runs", lambda: comparison(key)))
    for run in traced:
        if run.graphs:
            found.append((f"Finding the operators of {run.name}", _tables(key, run)))
    return found


def _dividing(key: str, run: Run) -> Callable[[], object]:
    return lambda: (compiled(key, run.name), step_divider(key, run.name))


def _matching(key: str, run: Run) -> Callable[[], object]:
    return lambda: timeline_of(key, run.name, nodes=True)


def _tables(key: str, run: Run) -> Callable[[], object]:
    return lambda: [nodes(key, run.name, graph.id) for graph in run.graphs]


def is_complete(key: str, names: Sequence[str]) -> bool:
    """Whether nothing is left to be found out about these runs."""
    traced = [run for run in (STORE.run(key, name) for name in names) if run.replay_trace]
    return (len(traced) < 2 or STORE.has(key, "comparison")) and all(
        replays_known(key, run.name)
        and step_lane_known(key, run.name)
        and all(STORE.has(key, ("nodes", run.name, graph.id)) for graph in run.graphs)
        for run in traced
    )
