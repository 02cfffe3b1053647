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
from graphviz_dash.features.graph.page.state.graphs import get_nodes
from graphviz_dash.features.timeline.page.component.ready import (
    get_compiled_steps,
    is_complete,
    list_tasks,
    load_timeline,
)
from graphviz_dash.features.timeline.view.difference import RunDifference, measure_time_lost
from graphviz_dash.features.timeline.view.ruler import measure_span
from graphviz_dash.features.timeline.view.run import (
    ChosenRun,
    choose_step,
)
from graphviz_dash.features.timeline.view.slice_card import (
    Counterpart,
    SliceCard,
    SliceId,
    build_slice_card,
    find_counterpart,
    find_node_slice,
    get_matched_node,
    parse_slice_token,
)
from graphviz_dash.features.timeline.view.slice_search import find_slices
from graphviz_dash.features.timeline.view.view import build_timeline_view
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.answer import name_main_cause
from graphviz_dash.ui.components.requests import (
    BadParameterError,
    check_run_name,
    get_parameter,
    parse_experiment_key,
    parse_integer,
    wrap_handler,
)
from graphviz_dash.ui.state.jobs import JOBS
from graphviz_dash.ui.state.results import (
    get_comparison,
    get_work_pairs,
)
from graphviz_dash.ui.state.store import COMPARISON, STORE, UnknownKeyError

_WAIT_S: Final = 0.25
"""Wait for the end of a job, enough for most jobs."""

_MAX_RUNS: Final = 8
_MAX_TEXT: Final = 200
_MAX_TIME: Final = 1 << 53  # largest exact integer in JavaScript
_MAX_PIXELS: Final = 1 << 20
_INTEGER: Final = re.compile(r"-?[0-9]{1,16}")


def build_routes() -> list[Route]:
    """Return the routes for views, slices, search, ruler and jobs.

    POST /api/timeline/more starts the slow analyses and returns their progress; POST
    /api/timeline/cancel cancels them.
    """
    return [
        Route("/api/timeline/view", wrap_handler(_handle_view), methods=["GET"]),
        Route("/api/timeline/slice", wrap_handler(_handle_slice), methods=["GET"]),
        Route("/api/timeline/find", wrap_handler(_handle_find), methods=["GET"]),
        Route("/api/timeline/measure", wrap_handler(_handle_measure), methods=["GET"]),
        Route("/api/timeline/more", wrap_handler(_handle_more), methods=["POST"]),
        Route("/api/timeline/cancel", wrap_handler(_handle_cancel), methods=["POST"]),
    ]


def load_card(
    key: str, run_name: str, steps: Mapping[str, int | None], slice_name: str
) -> SliceCard:
    """Return the card of a slice: "g12", "c12", or a node as "graph-0#17".

    ``steps`` has the chosen step of each shown run, in order.

    Raises:
        UnknownKeyError: no such experiment or run.
        InputError: no such slice, or the experiment cannot be read.
    """
    run = STORE.get_run(key, run_name)
    by_node = "#" in slice_name
    choice = choose_step(load_timeline(key, run_name, nodes=by_node), steps.get(run_name))
    slice_id = (
        find_node_slice(choice, slice_name)
        if by_node
        else parse_slice_token(choice.timeline, slice_name)
    )
    if slice_id is None or run.replay_trace is None:
        raise InputError(
            "slice", repr(slice_name[:80]), f"a node with a traced slice in {run_name}"
        )
    node = get_matched_node(choice.timeline, slice_id)
    origin = None
    # The node table of a large graph takes a second. A card does not wait for it.
    if node is not None and (by_node or STORE.has(key, ("nodes", run_name, node.graph))):
        origin = get_nodes(key, run_name, node.graph).rows[node.node]
    pairs = _find_counterparts(key, steps, choice, slice_id)
    return build_slice_card(choice, run.replay_trace, slice_id, origin, pairs)


def _find_counterparts(
    key: str, steps: Mapping[str, int | None], choice: ChosenRun, slice_id: SliceId
) -> list[Counterpart]:
    """Find the same work in the compared runs."""
    names = list(steps)
    if slice_id.table != "gpu" or not names or not STORE.has(key, "comparison"):
        return []
    is_first = choice.timeline.run == names[0]
    counterparts = []
    for name in names[1:] if is_first else names[:1]:
        first, second = (choice.timeline.run, name) if is_first else (name, choice.timeline.run)
        pairs = get_work_pairs(key, first, second)
        other = choose_step(load_timeline(key, name), steps[name])
        if isinstance(pairs, Missing) or other.timeline.problem is not None:
            continue
        match = find_counterpart(
            pairs, of_first=is_first, own=choice, row=slice_id.row, other=other
        )
        counterparts += [] if match is None else [match]
    return counterparts


def _handle_view(request: Request) -> msgspec.Struct:
    key, names = _parse_runs(request)
    pixels = parse_integer(request, "px", 1, _MAX_PIXELS)
    window = None
    if "t0" in request.query_params or "t1" in request.query_params:
        window = _parse_span(request)
        if window[0] == window[1]:
            raise BadParameterError("t1: not later than t0")
    runs = _choose_runs(request, key, names)
    complete = is_complete(key, names)
    differences = compute_differences(key, runs) if complete else []
    return build_timeline_view(
        runs,
        window,
        pixels,
        differences,
        compiled=get_compiled_steps(key, runs),
        complete=complete,
    )


def _handle_find(request: Request) -> msgspec.Struct:
    key, names = _parse_runs(request)
    text = get_parameter(request, "q")
    if not 0 < len(text) <= _MAX_TEXT:
        raise BadParameterError(f"q: expected 1 to {_MAX_TEXT} characters")
    return find_slices(_choose_runs(request, key, names), text)


def _handle_measure(request: Request) -> msgspec.Struct:
    key, names = _parse_runs(request)
    span = _parse_span(request)
    runs = _choose_runs(request, key, names)
    return measure_span(
        runs, span, compute_differences(key, runs) if is_complete(key, names) else []
    )


def _choose_runs(request: Request, key: str, names: Sequence[str]) -> list[ChosenRun]:
    steps = request.query_params.getlist("step") or [""] * len(names)
    if len(steps) != len(names):
        raise BadParameterError(f"step: {len(steps)} given, expected one for each run or none")
    return [
        choose_step(load_timeline(key, name), _parse_step(step))
        for name, step in zip(names, steps, strict=True)
    ]


def _parse_span(request: Request) -> tuple[int, int]:
    span = (
        parse_integer(request, "t0", -_MAX_TIME, _MAX_TIME),
        parse_integer(request, "t1", -_MAX_TIME, _MAX_TIME),
    )
    if span[0] > span[1]:
        raise BadParameterError("t1: earlier than t0")
    return span


def _get_job_key(key: str, names: Sequence[str]) -> tuple[str, ...]:
    return ("timeline", key, *names)


def compute_differences(key: str, runs: Sequence[ChosenRun]) -> list[RunDifference]:
    """Compute the loss of the first run against each other traced run."""
    first, *others = runs
    if first.timeline.problem is not None:
        return []
    differences = []
    for other in others:
        if other.timeline.problem is None:
            lost = _compute_time_lost(key, first, other)
            begin = first.step.span_start - first.origin if first.step else 0
            differences.append(
                RunDifference(other.timeline.run, lost, _name_cause(key, first, other), begin)
            )
    return differences


def _name_cause(key: str, first: ChosenRun, other: ChosenRun) -> str:
    """Name the cause; empty if the runs are not compared yet."""
    if not STORE.has(key, COMPARISON):
        return ""
    comparison = get_comparison(key)
    names = {first.timeline.run, other.timeline.run}
    for run in comparison.runs:
        if {run.name, run.baseline} == names:
            return name_main_cause(run)
    return ""


def _compute_time_lost(key: str, first: ChosenRun, other: ChosenRun) -> TimeLost | Missing:
    names = first.timeline.run, other.timeline.run
    pairs = get_work_pairs(key, *names)
    if isinstance(pairs, Missing):
        return pairs
    steps = [side.step.index if side.step else None for side in (first, other)]
    sides = [
        (STORE.get_run(key, name), side) for name, side in zip(names, (first, other), strict=True)
    ]
    return STORE.derive(
        key,
        ("time lost", *names, *steps),
        lambda experiment: measure_time_lost(pairs, sides[0], sides[1], experiment),
    )


def _handle_more(request: Request) -> msgspec.Struct:
    """Start the missing analyses, or return their progress."""
    key, names = _parse_runs(request)
    retry = "again" in request.query_params
    return JOBS.start(_get_job_key(key, names), list_tasks(key, names), restart=retry).wait(_WAIT_S)


def _handle_cancel(request: Request) -> msgspec.Struct:
    key, names = _parse_runs(request)
    job = JOBS.get_job(_get_job_key(key, names))
    if job is None:
        raise UnknownKeyError("no analysis was started for these runs")
    job.cancel()
    return job.wait(_WAIT_S)


def _parse_runs(request: Request) -> tuple[str, list[str]]:
    key = parse_experiment_key(request)
    names = [check_run_name(name) for name in request.query_params.getlist("run")]
    if not 1 <= len(names) <= _MAX_RUNS:
        raise BadParameterError(f"run: {len(names)} given, expected 1 to {_MAX_RUNS}")
    return key, names


def _handle_slice(request: Request) -> msgspec.Struct:
    key = parse_experiment_key(request)
    name = check_run_name(get_parameter(request, "run"))
    which = get_parameter(request, "slice")
    run_names = [check_run_name(text) for text in request.query_params.getlist("shown")]
    chosen = request.query_params.getlist("shown_step")
    if len(run_names) != len(chosen) or len(run_names) > _MAX_RUNS:
        raise BadParameterError("shown_step: expected one for each shown run")
    steps = {
        shown_run: _parse_step(step) for shown_run, step in zip(run_names, chosen, strict=True)
    }
    steps.setdefault(name, _parse_step(request.query_params.get("step", "")))
    try:
        return load_card(key, name, steps, which)
    except InputError as problem:
        if problem.where == "slice":
            raise UnknownKeyError(str(problem)) from problem
        raise


def _parse_step(text: str) -> int | None:
    if text == "":
        return None
    if not _INTEGER.fullmatch(text):
        raise BadParameterError(f"step: {text[:40]!r}, expected an integer or nothing")
    return int(text)
