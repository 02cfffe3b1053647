"""Excerpts of an experiment for export: some runs, one step each, or one graph."""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.arrays import Ints, get_column
from graphviz_dash.analysis.graph.nesting import find_root, list_nested_graphs
from graphviz_dash.analysis.replays.replays import get_identities, match_replays
from graphviz_dash.analysis.trace.lanes import link_trace_launches
from graphviz_dash.analysis.trace.steps import StepMethod, find_steps
from graphviz_dash.errors import InputError
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.run import Experiment, Run
from graphviz_dash.model.trace import Trace


class TracePart(Struct, frozen=True):
    """Exported part of an experiment.

    ``runs`` holds names, each with a step number or None for the full trace; empty for all runs.
    ``graph`` restricts it to launches of this graph.
    """

    runs: tuple[tuple[str, int | None], ...] = ()
    graph: str | None = None

    @property
    def description(self) -> str:
        """Description of the part; empty for the full experiment."""
        named = [run if step is None else f"{run} step {step}" for run, step in self.runs]
        return ", ".join(named + ([self.graph] if self.graph else []))


FULL_EXPERIMENT: Final = TracePart()


def extract_part(experiment: Experiment, part: TracePart) -> Experiment:
    """Restrict runs and traces to ``part``, with unchanged times.

    Raises:
        InputError: no such run, step or graph, or the graph was never launched in the trace.
    """
    if part == FULL_EXPERIMENT:
        return experiment
    by_name = {run.name: run for run in experiment.runs}
    missing = [name for name, _ in part.runs if name not in by_name]
    if missing:
        raise InputError(experiment.path, f"no run {missing[0]!r}", f"one of {', '.join(by_name)}")
    runs = [_extract_run(by_name[name], step, part.graph) for name, step in part.runs]
    return replace(experiment, runs=tuple(runs) or experiment.runs)


def _extract_run(run: Run, step: int | None, graph: str | None) -> Run:
    trace = run.replay_trace
    if trace is None:
        raise InputError(run.path, "no trace of its steps", "a traced run")
    if graph is not None:
        run, trace = _extract_graph(run, trace, graph)
    if step is not None:
        trace = _extract_step(run, trace, step)
    return replace(run, replay_trace=trace)


def _extract_step(run: Run, trace: Trace, number: int) -> Trace:
    marked_steps = [
        candidate for candidate in find_steps(trace) if candidate.method is not StepMethod.WHOLE
    ]
    step = next((candidate for candidate in marked_steps if candidate.index == number), None)
    if step is None:
        raise InputError(
            run.path, f"no step {number} in its trace", f"one of {len(marked_steps):,}"
        )

    def within(table: pl.DataFrame) -> pl.DataFrame:
        begins = pl.col("ts").is_between(step.start, step.end, closed="left")
        return table.filter(begins)

    return _cut_trace(
        trace,
        gpu=trace.gpu[np.sort(step.gpu_rows)],
        runtime=within(trace.runtime),
        ops=within(trace.ops),
        annotations=within(trace.annotations),
    )


def _extract_graph(run: Run, trace: Trace, graph_id: str) -> tuple[Run, Trace]:
    """Restrict the run to a graph and its nested graphs, the trace to its launches."""
    family = _collect_graph_family(run.graphs, graph_id)
    if not family:
        graph_ids = ", ".join(graph.id for graph in run.graphs) or "none"
        raise InputError(run.path, f"no graph {graph_id!r}", f"one of its graphs: {graph_ids}")
    match = match_replays(run.graphs, trace, get_identities(run))
    requested = [graph_index for graph_index, name in enumerate(match.graphs) if name in family]
    replays = np.unique(match.replay[np.isin(match.graph, requested)])
    rows: Ints = np.sort(match.gpu_row[np.isin(match.replay, replays)])
    if not len(rows):
        raise InputError(run.path, f"no launch of {graph_id} in its trace", "a replayed graph")
    calls = np.unique(link_trace_launches(trace).launch[rows])
    correlation = get_column(trace.runtime, "correlation")
    # A driver call inside the runtime call has the same correlation.
    call_rows = np.flatnonzero(np.isin(correlation, correlation[calls[calls >= 0]]))
    cut = _cut_trace(
        trace,
        gpu=trace.gpu[rows],
        runtime=trace.runtime[call_rows],
        ops=trace.ops.clear(),
        annotations=trace.annotations,
    )
    graphs = tuple(graph for graph in run.graphs if graph.id in family)
    return replace(run, graphs=graphs), cut


def _collect_graph_family(graphs: tuple[CapturedGraph, ...], graph_id: str) -> set[str]:
    """Return the ids of the graph and its nested graphs; a body is resolved to its root graph."""
    by_id = {graph.id: graph for graph in graphs}
    if graph_id not in by_id:
        return set()
    root = by_id[find_root(by_id[graph_id], by_id)]
    return {graph.id for graph in list_nested_graphs(root, by_id)}


def _cut_trace(
    trace: Trace,
    *,
    gpu: pl.DataFrame,
    runtime: pl.DataFrame,
    ops: pl.DataFrame,
    annotations: pl.DataFrame,
) -> Trace:
    # Rows have moved, so their file offsets are no longer valid.
    return dataclasses.replace(
        trace,
        gpu=gpu,
        runtime=runtime,
        ops=ops,
        annotations=annotations,
        python=trace.python.clear(),
        offsets=None,
    )
