"""All that a trace tells of one slice of the timeline, ready to be read: the slice's card."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.nodes.node_table import NodeRow
from graphviz_dash.analysis.replays.replays import METHODS
from graphviz_dash.analysis.trace.api_calls import CallClass, call_class
from graphviz_dash.analysis.trace.lanes import LaneSet
from graphviz_dash.errors import InputError, printable
from graphviz_dash.features.timeline.view.run import ChosenRun, RunTimeline
from graphviz_dash.units import counted, format_bytes, format_count, format_ns, format_percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphviz_dash.analysis.step_comparison.typical_step import TypicalStep
    from graphviz_dash.analysis.step_comparison.work_pairs import WorkPairs
    from graphviz_dash.model.trace import Trace

_TOKEN: Final = re.compile(r"([gc])([0-9]{1,12})")
_NODE_TOKEN: Final = re.compile(r"(.{1,64})#([0-9]{1,12})", re.DOTALL)
_MAX_TEXT = 4000


class SliceId(Struct, frozen=True):
    """A slice of a run: ``table`` is "gpu" or "cpu" (the runtime calls), ``row`` its row there."""

    table: Literal["gpu", "cpu"]
    row: int

    @property
    def token(self) -> str:
        """As text: g12 or c12."""
        return f"{self.table[0]}{self.row}"


class Linked(msgspec.Struct, frozen=True):
    """The other end of a launch: for a kernel the call, for a call the kernels that it launched."""

    token: str
    """Of the call, or of the first kernel."""
    count: int
    """Kernels of the call."""
    begin: int
    """In ns since the run's origin."""
    end: int
    """In ns since the run's origin; of a call's kernels the end of the last."""


class Counterpart(msgspec.Struct, frozen=True):
    """The same work in another run's chosen step."""

    run: str
    """Name of that run."""
    token: str
    """Its slice there; of several the last to end."""
    begin: int
    """In ns since that step's origin."""
    dur: int
    """In ns."""
    text: str
    """How long it took there and how the two were paired."""


class SliceCard(msgspec.Struct, frozen=True):
    """What is known of a slice."""

    run: str
    """Name of its run."""
    token: str
    """Kind and row, such as "g12"."""
    title: str
    """Short name."""
    name: str
    """As in the trace."""
    category: int
    """Index into the palette's categories."""
    begin: int
    """In ns since the run's origin."""
    dur: int
    """In ns."""
    owner: int
    """As of its lane."""
    track: int
    """As of its lane."""
    sub: int
    """As of its lane."""
    fields: list[tuple[str, str]]
    """Pairs of what and how much, formatted."""
    measured: Literal["traced"]
    """The pass that the times come from."""
    link: Linked | None
    """The other end of its launch; None where the trace has none."""
    graph: str | None
    """The graph that launched it; None for what no graph launched."""
    node: int | None
    """Index of its node; None where it was matched to none."""
    pairs: list[Counterpart] = []
    """The same work in the other runs shown."""


def parse_slice(timeline: RunTimeline, text: str) -> SliceId:
    """The slice that ``text`` names: "g12", "c12", as in SliceId.token.

    Raises:
        InputError: it is not of that form, or the trace has no such row.
    """
    match = _TOKEN.fullmatch(text)
    if not match:
        raise InputError("slice", f"{text[:80]!r}", "g or c and a row number, such as g12")
    table: Literal["gpu", "cpu"] = "gpu" if match[1] == "g" else "cpu"
    row = int(match[2])
    lanes = timeline.lanes.gpu if table == "gpu" else timeline.lanes.cpu
    rows = timeline.gpu_labels if table == "gpu" else timeline.call_labels
    if row >= len(rows.codes) or not np.any(lanes.row == row):
        raise InputError("slice", text, f"a row of the timeline of run {timeline.run}")
    return SliceId(table, row)


def node_slice(chosen: ChosenRun, text: str) -> SliceId | None:
    """The slice of a node named "graph-0#17": its first replay since the chosen step's start, else
    its first one at all; None if it is no such name or no slice was matched to that node."""
    match = _NODE_TOKEN.fullmatch(text)
    replays = chosen.timeline.replays
    if not match or replays is None:
        return None
    rows = replays.gpu_row[replays.rows_of(match[1], int(match[2]))]
    lanes = chosen.timeline.lanes.gpu
    at = np.flatnonzero(np.isin(lanes.row, rows))
    if not len(at):
        return None
    after = at[lanes.start[at] >= chosen.origin]
    pool = after if len(after) else at
    return SliceId("gpu", int(lanes.row[pool[np.argmin(lanes.start[pool])]]))


class MatchedNode(Struct, frozen=True):
    """The node that a slice was matched to."""

    graph: str
    """Id of its graph."""
    node: int
    """Its index."""
    method: str
    """How it was matched."""
    confidence: float
    """Of the match, 0 to 1."""


def node_of(timeline: RunTimeline, which: SliceId) -> MatchedNode | None:
    """The node of a slice; None for calls and for what was not matched."""
    replays, matched = timeline.replays, timeline.matched
    if which.table != "gpu" or replays is None or matched is None:
        return None
    item = int(matched[which.row])
    if item < 0 or replays.node[item] < 0:
        return None
    return MatchedNode(
        graph=replays.graphs[int(replays.graph[item])],
        node=int(replays.node[item]),
        method=METHODS[int(replays.method[item])],
        confidence=float(replays.confidence[item]),
    )


def slice_card(
    chosen: ChosenRun,
    trace: Trace,
    which: SliceId,
    origin: NodeRow | None = None,
    pairs: Sequence[Counterpart] = (),
) -> SliceCard:
    """The card of ``which``; ``origin`` is its row of the node table, where it is a graph's, and
    ``pairs`` the same work in other runs."""
    timeline = chosen.timeline
    gpu = which.table == "gpu"
    lanes = timeline.lanes.gpu if gpu else timeline.lanes.cpu
    at = int(np.flatnonzero(lanes.row == which.row)[0])
    lane = int(np.searchsorted(lanes.bounds, at, "right")) - 1
    record = (trace.gpu if gpu else trace.runtime).row(which.row, named=True)
    labels = timeline.gpu_labels if gpu else timeline.call_labels
    title, category = labels.texts[int(labels.codes[which.row])]
    begin, end = int(lanes.start[at]), int(lanes.end[at])
    node = node_of(timeline, which)
    link = _link(chosen, trace, which)
    fields = [("Duration", format_ns(end - begin)), ("Start", _since(begin - chosen.origin))]
    fields += _gap(lanes, lane, at)
    fields += [(f"In {pair.run}", pair.text) for pair in pairs]
    if gpu:
        fields += _node_fields(node, origin) if node else _op_fields(trace, record)
        fields += _launch_fields(trace, link, begin - chosen.origin, record)
        fields += _gpu_fields(record, end - begin)
    else:
        fields += _call_fields(record, link, begin - chosen.origin)
    return SliceCard(
        run=timeline.run,
        token=which.token,
        title=title,
        name=printable(str(record["name"] or ""))[:_MAX_TEXT],
        category=category,
        begin=begin - chosen.origin,
        dur=end - begin,
        owner=int(lanes.owner[lane]),
        track=int(lanes.track[lane]),
        sub=int(lanes.sub[lane]),
        fields=[(what, printable(text)[:_MAX_TEXT]) for what, text in fields],
        measured="traced",
        link=link,
        graph=node.graph if node else None,
        node=node.node if node else None,
        pairs=list(pairs),
    )


def counterpart(
    pairs: WorkPairs, *, of_first: bool, own: ChosenRun, row: int, other: ChosenRun
) -> Counterpart | None:
    """The partner of a GPU row of ``own`` in the chosen step of ``other``; None where the row lies
    in no step that ran the typical work. ``pairs`` are of both runs; ``of_first``:
    ``own`` is the first of them."""
    mine, theirs = pairs.before, pairs.after
    which = pairs.of_before if of_first else pairs.of_after
    if not of_first:
        mine, theirs = theirs, mine
    position = _place_of(mine, own, row)
    other_rows = theirs.rows.get(other.step.index) if other.step else None
    if position is None or other_rows is None:
        return None
    item, origin = position
    pair = pairs.rows[which[item]]
    places = pair.after if of_first else pair.before
    if not places:
        return Counterpart(other.timeline.run, "", 0, 0, "nothing: only in this run")
    lanes, own_lanes = other.timeline.lanes.gpu, own.timeline.lanes.gpu
    at = np.concatenate([np.flatnonzero(lanes.row == each) for each in other_rows[list(places)]])
    last = int(at[np.argmax(lanes.end[at])])
    begin, dur = int(lanes.start[last]) - other.origin, int(lanes.end[last] - lanes.start[last])
    mine_at = int(np.flatnonzero(own_lanes.row == row)[0])
    away = begin + dur - (int(own_lanes.end[mine_at]) - origin)
    text = (
        f"{pair.kind.value}, ends {format_ns(abs(away))} {'later' if away > 0 else 'earlier'}, "
        f"takes {format_ns(dur)}; paired by {pair.method}, {format_percent(pair.confidence)} sure"
    )
    return Counterpart(
        other.timeline.run, SliceId("gpu", int(lanes.row[last])).token, begin, dur, text
    )


def _place_of(work: TypicalStep, own: ChosenRun, row: int) -> tuple[int, int] | None:
    """Which item of its step a GPU row is, and that step's origin; None for one of no such step."""
    for step in own.timeline.steps:
        rows = work.rows.get(step.index)
        # Rows are numbered by their begin, so that those of other steps lie outside of this one's.
        if rows is None or not step.gpu_rows[0] <= row <= step.gpu_rows[-1]:
            continue
        item = np.flatnonzero(rows == row)
        if len(item):
            return int(item[0]), own.origin if step is own.step else step.span_start
    return None


def _since(ns: int) -> str:
    return f"{format_ns(ns, 5)} since the step's start"


def _gap(lanes: LaneSet, lane: int, at: int) -> list[tuple[str, str]]:
    if at == int(lanes.bounds[lane]):
        return [("Gap before", "first of its lane")]
    return [("Gap before", format_ns(int(lanes.start[at] - lanes.end[at - 1])))]


def _gpu_fields(record: dict[str, Any], dur: int) -> list[tuple[str, str]]:
    fields = [("Where", f"GPU {record['device']}, stream {record['stream']}")]
    if record["grid_x"] is not None:
        fields.append(("Grid", _dim3(record, "grid")))
        fields.append(("Block", _dim3(record, "block")))
    if record["shared"] is not None:
        fields.append(("Shared memory", format_bytes(record["shared"])))
    if record["registers"] is not None:
        fields.append(("Registers per thread", format_count(record["registers"])))
    if record["bytes"] is not None:
        rate = f", {record['bytes'] / dur:,.1f} GB/s" if dur else ""
        fields.append(("Bytes", f"{format_bytes(record['bytes'])}{rate}"))
    return fields


def _dim3(record: dict[str, Any], what: str) -> str:
    return " x ".join(
        "?" if v is None else f"{v:,}" for v in (record[f"{what}_{a}"] for a in "xyz")
    )


def _launch_fields(
    trace: Trace, link: Linked | None, begin: int, record: dict[str, Any]
) -> list[tuple[str, str]]:
    correlation = record["correlation"]
    shown = [] if correlation is None else [("Correlation", str(correlation))]
    if link is None:
        return [("Launched by", "not in the trace"), *shown]
    call = str(trace.runtime["name"][int(link.token[1:])])
    others = "" if link.count == 1 else f" ({link.count:,} slices)"
    return [
        ("Launched by", f"{call}{others}"),
        ("Launch delay", f"{format_ns(begin - link.begin)} from the call to its start"),
        *shown,
    ]


def _op_fields(trace: Trace, record: dict[str, Any]) -> list[tuple[str, str]]:
    external = record["external_id"]
    if external is None:
        return []
    hit = (trace.ops["external_id"] == external).arg_true()
    if not len(hit):
        return []
    op = trace.ops.row(int(hit[-1]), named=True)
    fields = [("Op", str(op["name"]))]
    if op["input_dims"]:
        fields.append(("Input shapes", str(op["input_dims"])))
    return fields


def _node_fields(node: MatchedNode, row: NodeRow | None) -> list[tuple[str, str]]:
    matched_by = ("Node found by", f"{node.method}, {format_percent(node.confidence)} sure")
    fields = [("Graph node", f"#{node.node} of {node.graph}")]
    if row is None:
        return [*fields, matched_by]
    origin, times = row.origin, row.times
    for what, text in (
        ("Op", origin.op),
        ("Module", origin.module),
        ("Source", origin.source),
        ("Input shapes", origin.input_dims),
        ("Phase", origin.phase if origin.op else None),
    ):
        if text:
            fields.append((what, text))
    if times.samples and times.median_ns is not None:
        note = f"; {times.note}" if times.note else ""
        fields.append(
            ("Over the replays", f"median {format_ns(times.median_ns)} of {times.samples:,}{note}")
        )
    how = f"{origin.method}, {format_percent(origin.confidence)} sure"
    attribution = how if origin.op else f"{how}: {origin.reason or 'unknown'}"
    return [*fields, matched_by, ("Op found by", attribution)]


def _call_fields(record: dict[str, Any], link: Linked | None, begin: int) -> list[tuple[str, str]]:
    fields = [
        ("What", call_class(str(record["name"])).value),
        ("Where", f"process {record['pid']}, thread {record['tid']}"),
    ]
    if link is not None:
        fields.append(("Launched", counted(link.count, "GPU slice")))
        fields.append(("First starts", f"{format_ns(link.begin - begin)} after the call began"))
        if link.count > 1:
            fields.append(("They take", f"{format_ns(link.end - link.begin)} from first to last"))
    elif call_class(str(record["name"])) in (CallClass.KERNEL_LAUNCH, CallClass.GRAPH_LAUNCH):
        fields.append(("Launched", "no GPU slice of the trace has its correlation"))
    if record["correlation"] is not None:
        fields.append(("Correlation", str(record["correlation"])))
    return fields


def _link(chosen: ChosenRun, trace: Trace, which: SliceId) -> Linked | None:
    links = chosen.timeline.lanes.links
    if which.table == "cpu":
        rows = links.kernels_of(which.row)
        if not len(rows):
            return None
        gpu = trace.gpu[rows.tolist()]
        ends = gpu["ts"] + gpu["dur"]
        begin, end = int(gpu["ts"].to_numpy().min()), int(ends.to_numpy().max())
        token = SliceId("gpu", int(rows[0])).token
        return Linked(token, len(rows), begin - chosen.origin, end - chosen.origin)
    call = int(links.launch[which.row])
    if call < 0:
        return None
    begin, dur = int(trace.runtime["ts"][call]), int(trace.runtime["dur"][call])
    count = len(links.kernels_of(call))
    since = begin - chosen.origin
    return Linked(SliceId("cpu", call).token, count, since, since + dur)
