"""Routes of the timeline component: views of a window, and cards of slices.

Parameter checks and responses: graphviz_dash.ui.components.requests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from graphviz_dash.analysis.step_comparison.time_lost import TimeLost
from graphviz_dash.errors import InputError
from graphviz_dash.features.graph.page.state.graphs import nodes
from graphviz_dash.features.timeline.page.component.ready import (
    compiled_steps,
    is_complete,
    tasks,
    timeline_of,
)
from graphviz_dash.features.timeline.view.difference import RunDifference, time_lost_between
from graphviz_dash.features.timeline.view.ruler import measure
from graphviz_dash.features.timeline.view.run import (
    ChosenRun,
    choose,
)
from graphviz_dash.features.timeline.view.slice_card import (
    Counterpart,
    SliceCard,
    SliceId,
    counterpart,
    node_of,
    node_slice,
    parse_slice,
    slice_card,
)
from graphviz_dash.features.timeline.view.view import timeline_view
from graphviz_dash.model.absence import Missing
from graphviz_dash.ui.components.requests import (
    BadParameterError,
    answering,
    checked_name,
    experiment_key,
    integer,
    one,
)
from graphviz_dash.ui.state.jobs import JOBS
from graphviz_dash.ui.state.results import (
    work_pairs,
)
from graphviz_dash.ui.state.store import STORE, UnknownKeyError

_PATIENCE_S: Final = 0.25
"""Seconds that a response waits for the end of a job, enough for most jobs."""

_MAX_RUNS: Final = 8
_MAX_TIME: Final = 1 << 53  # largest exact integer in JavaScript
_MAX_PIXELS_ASKED: Final = 1 << 20
_INTEGER: Final = re.compile(r"-?[0-9]{1,16}")


def routes() -> list[Route]:
    """Return GET /api/timeline/view, slice and measure, POST /api/timeline/more, which starts the
    slow analyses and returns their progress, and POST /api/timeline/cancel."""
    return [
        Route("/api/timeline/view", answering(_view), methods=["GET"]),
        Route("/api/timeline/slice", answering(_slice), methods=["GET"]),
        Route("/api/timeline/measure", answering(_measure), methods=["GET"]),
        Route("/api/timeline/more", answering(_more), methods=["POST"]),
        Route("/api/timeline/cancel", answering(_cancel), methods=["POST"]),
    ]


def card(key: str, run_name: str, steps: Mapping[str, int | None], which: str) -> SliceCard:
    """Return the card of the slice ``which``: "g12", "c12", or a node as "graph-0#17".

    ``steps`` has the chosen step of each shown run, in order.

    Raises:
        UnknownKeyError: no such experiment or run.
        InputError: no such slice, or the experiment cannot be read.
    """
    run = STORE.run(key, run_name)
    by_node = "#" in which
    chosen = choose(timeline_of(key, run_name, nodes=by_node), steps.get(run_name))
    slice_id = node_slice(chosen, which) if by_node else parse_slice(chosen.timeline, which)
    if slice_id is None or run.replay_trace is None:
        raise InputError("slice", repr(which[:80]), f"a node with a traced slice in {run_name}")
    node = node_of(chosen.timeline, slice_id)
    origin = None
    # The node table of a large graph takes a second. A card does not wait for it.
    if node is not None and (by_node or STORE.has(key, ("nodes", run_name, node.graph))):
        origin = nodes(key, run_name, node.graph).rows[node.node]
    pairs = _counterparts(key, steps, chosen, slice_id)
    return slice_card(chosen, run.replay_trace, slice_id, origin, pairs)


def _counterparts(
    key: str, steps: Mapping[str, int | None], own: ChosenRun, which: SliceId
) -> list[Counterpart]:
    """Find the same work in the runs compared with the run of the slice."""
    names = list(steps)
    if which.table != "gpu" or not names or not STORE.has(key, "comparison"):
        return []
    is_first = own.timeline.run == names[0]
    counterparts = []
    for name in names[1:] if is_first else names[:1]:
        first, second = (own.timeline.run, name) if is_first else (name, own.timeline.run)
        pairs = work_pairs(key, first, second)
        other = choose(timeline_of(key, name), steps[name])
        if isinstance(pairs, Missing) or other.timeline.problem is not None:
            continue
        match = counterpart(pairs, of_first=is_first, own=own, row=which.row, other=other)
        counterparts += [] if match is None else [match]
    return counterparts


def _view(request: Request) -> msgspec.Struct:
    key, names = _runs(request)
    pixels = integer(request, "px", 1, _MAX_PIXELS_ASKED)
    window = None
    if "t0" in request.query_params or "t1" in request.query_params:
        window = _span(request)
        if window[0] == window[1]:
            raise BadParameterError("t1: not later than t0")
    runs = _chosen(request, key, names)
    complete = is_complete(key, names)
    differences = _differences(key, runs) if complete else []
    return timeline_view(
        runs,
        window,
        pixels,
        differences,
        compiled=compiled_steps(key, runs),
        complete=complete,
    )


def _measure(request: Request) -> msgspec.Struct:
    key, names = _runs(request)
    span = _span(request)
    runs = _chosen(request, key, names)
    return measure(runs, span, _differences(key, runs) if is_complete(key, names) else [])


def _chosen(request: Request, key: str, names: Sequence[str]) -> list[ChosenRun]:
    steps = request.query_params.getlist("step") or [""] * len(names)
    if len(steps) != len(names):
        raise BadParameterError(f"step: {len(steps)} given, expected one for each run or none")
    return [
        choose(timeline_of(key, name), _step(step)) for name, step in zip(names, steps, strict=True)
    ]


def _span(request: Request) -> tuple[int, int]:
    span = (
        integer(request, "t0", -_MAX_TIME, _MAX_TIME),
        integer(request, "t1", -_MAX_TIME, _MAX_TIME),
    )
    if span[0] > span[1]:
        raise BadParameterError("t1: earlier than t0")
    return span


def _slot(key: str, names: Sequence[str]) -> tuple[str, ...]:
    return ("timeline", key, *names)


def _differences(key: str, runs: Sequence[ChosenRun]) -> list[RunDifference]:
    """Compute the loss of the first run against each other traced run."""
    first, *others = runs
    if first.timeline.problem is not None:
        return []
    differences = []
    for other in others:
        if other.timeline.problem is None:
            lost = _time_lost(key, first, other)
            begin = first.step.span_start - first.origin if first.step else 0
            differences.append(RunDifference(other.timeline.run, lost, begin))
    return differences


def _time_lost(key: str, first: ChosenRun, other: ChosenRun) -> TimeLost | Missing:
    names = first.timeline.run, other.timeline.run
    pairs = work_pairs(key, *names)
    if isinstance(pairs, Missing):
        return pairs
    steps = [side.step.index if side.step else None for side in (first, other)]
    sides = [(STORE.run(key, name), side) for name, side in zip(names, (first, other), strict=True)]
    return STORE.derived(
        key,
        ("time lost", *names, *steps),
        lambda experiment: time_lost_between(pairs, sides[0], sides[1], experiment),
    )


def _more(request: Request) -> msgspec.Struct:
    """Start the missing analyses of the runs, or return their progress."""
    key, names = _runs(request)
    again = "again" in request.query_params
    return JOBS.begin(_slot(key, names), tasks(key, names), again=again).wait(_PATIENCE_S)


def _cancel(request: Request) -> msgspec.Struct:
    key, names = _runs(request)
    job = JOBS.of(_slot(key, names))
    if job is None:
        raise UnknownKeyError("no analysis was started for these runs")
    job.cancel()
    return job.wait(_PATIENCE_S)


def _runs(request: Request) -> tuple[str, list[str]]:
    key = experiment_key(request)
    names = [checked_name(name) for name in request.query_params.getlist("run")]
    if not 1 <= len(names) <= _MAX_RUNS:
        raise BadParameterError(f"run: {len(names)} given, expected 1 to {_MAX_RUNS}")
    return key, names


def _slice(request: Request) -> msgspec.Struct:
    key = experiment_key(request)
    name = checked_name(one(request, "run"))
    which = one(request, "slice")
    shown = [checked_name(text) for text in request.query_params.getlist("shown")]
    chosen = request.query_params.getlist("shown_step")
    if len(shown) != len(chosen) or len(shown) > _MAX_RUNS:
        raise BadParameterError("shown_step: expected one for each shown run")
    steps = {shown_run: _step(step) for shown_run, step in zip(shown, chosen, strict=True)}
    steps.setdefault(name, _step(request.query_params.get("step", "")))
    try:
        return card(key, name, steps, which)
    except InputError as problem:
        if problem.where == "slice":
            raise UnknownKeyError(str(problem)) from problem
        raise


def _step(text: str) -> int | None:
    if text == "":
        return None
    if not _INTEGER.fullmatch(text):
        raise BadParameterError(f"step: {text[:40]!r}, expected an integer or nothing")
    return int(text)
