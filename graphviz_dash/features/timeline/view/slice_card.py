"""Card of a timeline slice with all data from its trace."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.nodes.node_table import NodeRow
from graphviz_dash.analysis.replays.replays import METHODS
from graphviz_dash.analysis.step_comparison.typical_step import TypicalStep
from graphviz_dash.analysis.step_comparison.work_pairs import WorkPairs
from graphviz_dash.analysis.trace.api_calls import CallClass, get_call_class
from graphviz_dash.analysis.trace.lanes import LaneSet
from graphviz_dash.errors import InputError, escape_control_characters
from graphviz_dash.features.timeline.view.run import ChosenRun, RunTimeline
from graphviz_dash.model.trace import Trace
from graphviz_dash.units import format_bytes, format_count, format_ns, format_percent, pluralize

_TOKEN: Final = re.compile(r"([gc])([0-9]{1,12})")
_NODE_TOKEN: Final = re.compile(r"(.{1,64})#([0-9]{1,12})", re.DOTALL)
_MAX_TEXT = 4000


class SliceId(Struct, frozen=True):
    """Slice of a run: ``table`` is "gpu" or "cpu" (runtime calls), ``row`` its row there."""

    table: Literal["gpu", "cpu"]
    row: int

    @property
    def token(self) -> str:
        """Text form: g12 or c12."""
        return f"{self.table[0]}{self.row}"


class Linked(msgspec.Struct, frozen=True):
    """Other end of a launch: the call of a kernel, or the kernels of a call."""

    token: str
    """Token of the call, or of the first kernel."""
    count: int
    """Number of kernels of the call."""
    begin: int
    """Start in ns since the run's origin."""
    end: int
    """End in ns since the run's origin; the last end for several kernels."""


class Counterpart(msgspec.Struct, frozen=True):
    """Corresponding work in another run's chosen step."""

    run: str
    """Name of that run."""
    token: str
    """Slice in that run; the last to end if there are several."""
    begin: int
    """Start in ns since that step's origin."""
    dur: int
    """Duration in ns."""
    text: str
    """Duration and matching method, in words."""


class SliceCard(msgspec.Struct, frozen=True):
    """All known facts of a slice."""

    run: str
    """Name of its run."""
    token: str
    """Kind and row, such as "g12"."""
    title: str
    """Short name."""
    name: str
    """Name in the trace."""
    category: int
    """Index into the palette's categories."""
    begin: int
    """Start in ns since the run's origin."""
    dur: int
    """Duration in ns."""
    owner: int
    """Owner of its lane."""
    track: int
    """Track of its lane."""
    sub: int
    """Sub-lane index."""
    fields: list[tuple[str, str]]
    """Pairs of label and formatted value."""
    measured: Literal["traced"]
    """Pass of the times."""
    link: Linked | None
    """Other end of its launch; None if the trace has none."""
    graph: str | None
    """Graph that launched it; None for other work."""
    node: int | None
    """Index of its node; None if unmatched."""
    pairs: list[Counterpart] = []
    """Corresponding work in the other visible runs."""


def parse_slice_token(timeline: RunTimeline, text: str) -> SliceId:
    """Parse a token such as "g12" or "c12".

    Raises:
        InputError: the form is invalid, or the trace has no such row.
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


def find_node_slice(choice: ChosenRun, text: str) -> SliceId | None:
    """Find the slice of a node such as "graph-0#17": its first replay since the start of the chosen
    step, or else ever. None if the name is invalid or the node has no slice."""
    match = _NODE_TOKEN.fullmatch(text)
    replays = choice.timeline.replays
    if not match or replays is None:
        return None
    rows = replays.gpu_row[replays.get_node_rows(match[1], int(match[2]))]
    lanes = choice.timeline.lanes.gpu
    positions = np.flatnonzero(np.isin(lanes.row, rows))
    if not len(positions):
        return None
    following = positions[lanes.start[positions] >= choice.origin]
    pool = following if len(following) else positions
    return SliceId("gpu", int(lanes.row[pool[np.argmin(lanes.start[pool])]]))


class MatchedNode(Struct, frozen=True):
    """Node that a slice was matched to."""

    graph: str
    node: int
    method: str
    confidence: float
    """Confidence of the match, 0 to 1."""


def get_matched_node(timeline: RunTimeline, slice_id: SliceId) -> MatchedNode | None:
    """Return the node; None for calls and unmatched slices."""
    replays, matched = timeline.replays, timeline.matched
    if slice_id.table != "gpu" or replays is None or matched is None:
        return None
    item = int(matched[slice_id.row])
    if item < 0 or replays.node[item] < 0:
        return None
    return MatchedNode(
        graph=replays.graphs[int(replays.graph[item])],
        node=int(replays.node[item]),
        method=METHODS[int(replays.method[item])],
        confidence=float(replays.confidence[item]),
    )


def build_slice_card(
    choice: ChosenRun,
    trace: Trace,
    slice_id: SliceId,
    origin: NodeRow | None = None,
    pairs: Sequence[Counterpart] = (),
) -> SliceCard:
    """Build a card; ``origin`` is the row of the node table, ``pairs`` the work in other runs."""
    timeline = choice.timeline
    gpu = slice_id.table == "gpu"
    lanes = timeline.lanes.gpu if gpu else timeline.lanes.cpu
    position = int(np.flatnonzero(lanes.row == slice_id.row)[0])
    lane = int(np.searchsorted(lanes.bounds, position, "right")) - 1
    record = (trace.gpu if gpu else trace.runtime).row(slice_id.row, named=True)
    labels = timeline.gpu_labels if gpu else timeline.call_labels
    title, category = labels.texts[int(labels.codes[slice_id.row])]
    begin, end = int(lanes.start[position]), int(lanes.end[position])
    node = get_matched_node(timeline, slice_id)
    link = _find_link(choice, trace, slice_id)
    fields = [
        ("Duration", format_ns(end - begin)),
        ("Start", f"{format_ns(begin - choice.origin, 5)} since the step's start"),
    ]
    fields += _build_gap_fields(lanes, lane, position)
    fields += [(f"In {pair.run}", pair.text) for pair in pairs]
    if gpu:
        fields += _build_node_fields(node, origin) if node else _build_op_fields(trace, record)
        fields += _build_launch_fields(trace, link, begin - choice.origin, record)
        fields += _build_gpu_fields(record, end - begin)
    else:
        fields += _build_call_fields(record, link, begin - choice.origin)
    return SliceCard(
        run=timeline.run,
        token=slice_id.token,
        title=title,
        name=escape_control_characters(str(record["name"] or ""))[:_MAX_TEXT],
        category=category,
        begin=begin - choice.origin,
        dur=end - begin,
        owner=int(lanes.owner[lane]),
        track=int(lanes.track[lane]),
        sub=int(lanes.sub[lane]),
        fields=[
            (label_text, escape_control_characters(text)[:_MAX_TEXT]) for label_text, text in fields
        ],
        measured="traced",
        link=link,
        graph=node.graph if node else None,
        node=node.node if node else None,
        pairs=list(pairs),
    )


def find_counterpart(
    pairs: WorkPairs, *, of_first: bool, own: ChosenRun, row: int, other: ChosenRun
) -> Counterpart | None:
    """Find the partner of a GPU row in the chosen step of ``other``; None outside steps with the
    typical work. ``of_first``: ``own`` is the first run of ``pairs``."""
    own_step, other_step = pairs.before, pairs.after
    pair_index = pairs.baseline_rows if of_first else pairs.run_rows
    if not of_first:
        own_step, other_step = other_step, own_step
    position = _find_step_item(own_step, own, row)
    other_rows = other_step.rows.get(other.step.index) if other.step else None
    if position is None or other_rows is None:
        return None
    item, origin = position
    pair = pairs.rows[pair_index[item]]
    places = pair.after if of_first else pair.before
    if not places:
        return Counterpart(other.timeline.run, "", 0, 0, "no match: only in this run")
    lanes, own_lanes = other.timeline.lanes.gpu, own.timeline.lanes.gpu
    positions = np.concatenate(
        [np.flatnonzero(lanes.row == other_row) for other_row in other_rows[list(places)]]
    )
    last = int(positions[np.argmax(lanes.end[positions])])
    begin, dur = int(lanes.start[last]) - other.origin, int(lanes.end[last] - lanes.start[last])
    row_position = int(np.flatnonzero(own_lanes.row == row)[0])
    delay = begin + dur - (int(own_lanes.end[row_position]) - origin)
    text = (
        f"{pair.kind.value}, ends {format_ns(abs(delay))} {'later' if delay > 0 else 'earlier'}, "
        f"duration {format_ns(dur)}; matched by {pair.method}, {format_percent(pair.confidence)} "
        "confidence"
    )
    return Counterpart(
        other.timeline.run, SliceId("gpu", int(lanes.row[last])).token, begin, dur, text
    )


def _find_step_item(work: TypicalStep, item_choice: ChosenRun, row: int) -> tuple[int, int] | None:
    """Return the item of a GPU row and its step's origin; None outside such steps."""
    for step in item_choice.timeline.steps:
        rows = work.rows.get(step.index)
        # Rows are sorted by start, so rows of other steps are outside this range.
        if rows is None or not step.gpu_rows[0] <= row <= step.gpu_rows[-1]:
            continue
        item = np.flatnonzero(rows == row)
        if len(item):
            return int(item[0]), item_choice.origin if step is item_choice.step else step.span_start
    return None


def _build_gap_fields(lanes: LaneSet, lane: int, at: int) -> list[tuple[str, str]]:
    if at == int(lanes.bounds[lane]):
        return [("Gap before", "first of its lane")]
    return [("Gap before", format_ns(int(lanes.start[at] - lanes.end[at - 1])))]


def _build_gpu_fields(record: dict[str, Any], dur: int) -> list[tuple[str, str]]:
    fields = [("Location", f"GPU {record['device']}, stream {record['stream']}")]
    if record["grid_x"] is not None:
        fields.append(("Grid", _format_dim3(record, "grid")))
        fields.append(("Block", _format_dim3(record, "block")))
    if record["shared"] is not None:
        fields.append(("Shared memory", format_bytes(record["shared"])))
    if record["registers"] is not None:
        fields.append(("Registers per thread", format_count(record["registers"])))
    if record["bytes"] is not None:
        rate = f", {record['bytes'] / dur:,.1f} GB/s" if dur else ""
        fields.append(("Bytes", f"{format_bytes(record['bytes'])}{rate}"))
    return fields


def _format_dim3(record: dict[str, Any], field: str) -> str:
    return " x ".join(
        "?" if v is None else f"{v:,}" for v in (record[f"{field}_{a}"] for a in "xyz")
    )


def _build_launch_fields(
    trace: Trace, link: Linked | None, begin: int, record: dict[str, Any]
) -> list[tuple[str, str]]:
    correlation = record["correlation"]
    fields = [] if correlation is None else [("Correlation", str(correlation))]
    if link is None:
        return [("Launched by", "not in the trace"), *fields]
    call = str(trace.runtime["name"][int(link.token[1:])])
    others = "" if link.count == 1 else f" ({link.count:,} slices)"
    return [
        ("Launched by", f"{call}{others}"),
        ("Launch delay", f"{format_ns(begin - link.begin)} from the call to its start"),
        *fields,
    ]


def _build_op_fields(trace: Trace, record: dict[str, Any]) -> list[tuple[str, str]]:
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


def _build_node_fields(node: MatchedNode, row: NodeRow | None) -> list[tuple[str, str]]:
    matched_by = ("Node matched by", f"{node.method}, {format_percent(node.confidence)} confidence")
    fields = [("Graph node", f"#{node.node} of {node.graph}")]
    if row is None:
        return [*fields, matched_by]
    origin, times = row.origin, row.times
    for label_text, text in (
        ("Op", origin.op),
        ("Module", origin.module),
        ("Source", origin.source),
        ("Input shapes", origin.input_dims),
        ("Phase", origin.phase if origin.op else None),
    ):
        if text:
            fields.append((label_text, text))
    if times.samples and times.median_ns is not None:
        note = f"; {times.note}" if times.note else ""
        fields.append(
            ("All replays", f"median {format_ns(times.median_ns)} of {times.samples:,}{note}")
        )
    method = f"{origin.method}, {format_percent(origin.confidence)} confidence"
    attribution = method if origin.op else f"{method}: {origin.reason or 'unknown'}"
    return [*fields, matched_by, ("Op attributed by", attribution)]


def _build_call_fields(
    record: dict[str, Any], link: Linked | None, begin: int
) -> list[tuple[str, str]]:
    fields = [
        ("Type", get_call_class(str(record["name"])).value),
        ("Location", f"process {record['pid']}, thread {record['tid']}"),
    ]
    if link is not None:
        fields.append(("Launched", pluralize(link.count, "GPU slice")))
        fields.append(("First starts", f"{format_ns(link.begin - begin)} after the call began"))
        if link.count > 1:
            fields.append(
                ("Total duration", f"{format_ns(link.end - link.begin)} from first to last")
            )
    elif get_call_class(str(record["name"])) in (CallClass.KERNEL_LAUNCH, CallClass.GRAPH_LAUNCH):
        fields.append(("Launched", "no GPU slice in the trace has its correlation"))
    if record["correlation"] is not None:
        fields.append(("Correlation", str(record["correlation"])))
    return fields


def _find_link(choice: ChosenRun, trace: Trace, slice_id: SliceId) -> Linked | None:
    links = choice.timeline.lanes.links
    if slice_id.table == "cpu":
        rows = links.get_launched_rows(slice_id.row)
        if not len(rows):
            return None
        gpu = trace.gpu[rows.tolist()]
        ends = gpu["ts"] + gpu["dur"]
        begin, end = int(gpu["ts"].to_numpy().min()), int(ends.to_numpy().max())
        token = SliceId("gpu", int(rows[0])).token
        return Linked(token, len(rows), begin - choice.origin, end - choice.origin)
    call = int(links.launch[slice_id.row])
    if call < 0:
        return None
    begin, dur = int(trace.runtime["ts"][call]), int(trace.runtime["dur"][call])
    count = len(links.get_launched_rows(call))
    since = begin - choice.origin
    return Linked(SliceId("cpu", call).token, count, since, since + dur)
