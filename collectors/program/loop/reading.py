"""Read the loop of a process from its files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from collectors.program.loop.assembly import assemble_loop
from collectors.program.loop.events import (
    EVENTS_FILE,
    FACTS_FILE,
    EventKind,
    GraphFacts,
    LoopFacts,
    read_events,
)
from collectors.program.loop.grids import add_grid_keys
from collectors.program.loop.variables import add_record_fields, add_variable_keys
from collectors.program.progress import read_progress
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.loop import ProgramLoop
from graphviz_dash.model.recording import Recording


def read_loop(
    folder: Path, state: Recording, graphs: Sequence[CapturedGraph]
) -> ProgramLoop | None:
    """Read the loop of the process of ``folder``. None without captures or files."""
    if not (folder / FACTS_FILE).exists() or not (folder / EVENTS_FILE).exists():
        return None
    facts = msgspec.json.decode((folder / FACTS_FILE).read_bytes(), type=LoopFacts)
    names = [graph.graph for graph in state.graphs]
    # After a kill, one of the files may be newer.
    later = tuple(GraphFacts(graph.captured_at) for graph in state.graphs[len(facts.graphs) :])
    facts.graphs = (*facts.graphs[: len(state.graphs)], *later)
    progress = read_progress(folder)
    if progress is not None:
        facts.dropped = max(facts.dropped, progress.dropped_steps)
    limits = {EventKind.SCOPE: len(facts.scopes), EventKind.PASS: len(facts.passes)}
    limits |= dict.fromkeys((EventKind.REPLAY, EventKind.CAPTURE, EventKind.GPU), len(names))
    # The cudagraph trees capture an empty graph once, to create their memory pool.
    empty = {number for number, graph in enumerate(state.graphs) if graph.nodes == 0}
    events = (
        event
        for event in read_events(folder / EVENTS_FILE, facts.origin)
        if event.ref < limits.get(event.kind, event.ref + 1)
        and not (event.kind is EventKind.CAPTURE and event.ref in empty)
    )
    if not names:
        return None
    loop = assemble_loop(events, facts, names, state.boundary_kind)
    loop = add_record_fields(loop, facts)
    return add_grid_keys(add_variable_keys(loop, facts, graphs), graphs)
