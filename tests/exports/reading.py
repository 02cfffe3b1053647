"""Exported traces read back, each with its own format's reader, into one plain form."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto


@dataclass
class ReadSlice:
    """A slice: names resolved, times in ns, ``flows`` as a tuple of ids."""

    process: str
    track: str
    name: str
    category: str
    start: int
    end: int
    args: dict[str, Any]
    flows: tuple[int, ...]


@dataclass
class ReadTrace:
    """All that a test asks of a trace. ``counters`` by process: (ts, value)."""

    slices: list[ReadSlice] = field(default_factory=list)
    counters: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    processes: list[str] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)

    def of(self, process: str, *categories: str) -> list[ReadSlice]:
        """The slices of a run in the given categories, by start."""
        found = [s for s in self.slices if s.process == process and s.category in categories]
        return sorted(found, key=lambda one: one.start)

    def linked(self, launch: ReadSlice) -> list[ReadSlice]:
        """The other ends of the arrows at ``launch``."""
        return [s for s in self.slices if s is not launch and set(s.flows) & set(launch.flows)]


def packets(path: Path) -> list[proto.TracePacket]:
    data = path.read_bytes()
    return list(
        proto.Trace.FromString(gzip.decompress(data) if path.suffix == ".gz" else data).packet
    )


def read_perfetto(path: Path) -> ReadTrace:
    """A native trace, by Perfetto's own classes and nothing of ours."""
    read = ReadTrace()
    names: dict[str, dict[int, str]] = defaultdict(dict)
    parent: dict[int, int] = {}
    title: dict[int, str] = {}
    process: dict[int, str] = {}
    process_of_pid: dict[int, str] = {}
    open_slices: dict[int, list[ReadSlice]] = defaultdict(list)

    def owner(uuid: int) -> str:
        while uuid not in process:
            uuid = parent[uuid]
        return process[uuid]

    def value(arg: proto.DebugAnnotation) -> Any:
        which = arg.WhichOneof("value")
        return names["text"][arg.string_value_iid] if "string" in which else getattr(arg, which)

    for packet in packets(path):
        data = packet.interned_data
        for kind, entries in (
            ("name", data.event_names),
            ("category", data.event_categories),
            ("arg", data.debug_annotation_names),
        ):
            names[kind].update((entry.iid, entry.name) for entry in entries)
        for text in data.debug_annotation_string_values:
            names["text"][text.iid] = text.str.decode()
        for attribute in packet.trace_attributes.attribute:
            read.facts[attribute.key] = attribute.string_value
        if packet.HasField("track_descriptor") and packet.track_descriptor.uuid:
            track = packet.track_descriptor
            parent[track.uuid] = track.parent_uuid
            title[track.uuid] = track.name
            if track.HasField("process"):
                process[track.uuid] = track.process.process_name
                process_of_pid[track.process.pid] = track.process.process_name
                read.processes.append(track.process.process_name)
            if track.HasField("thread"):
                process[track.uuid] = process_of_pid[track.thread.pid]
                title[track.uuid] = f"{track.thread.thread_name} {track.thread.tid}"
        if packet.HasField("track_event"):
            event = packet.track_event
            if event.type == event.TYPE_COUNTER:
                values = read.counters.setdefault(owner(event.track_uuid), [])
                values.append((packet.timestamp, event.double_counter_value))
            elif event.type == event.TYPE_SLICE_BEGIN:
                begun = ReadSlice(
                    owner(event.track_uuid),
                    title[event.track_uuid],
                    names["name"][event.name_iid],
                    names["category"][event.category_iids[0]],
                    packet.timestamp,
                    -1,
                    {names["arg"][arg.name_iid]: value(arg) for arg in event.debug_annotations},
                    tuple(event.flow_ids),
                )
                read.slices.append(begun)
                open_slices[event.track_uuid].append(begun)
            else:
                open_slices[event.track_uuid].pop().end = packet.timestamp
    return read


def read_chrome(path: Path) -> ReadTrace:
    data = path.read_bytes()
    document = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data, parse_float=str)
    read = ReadTrace(facts=document["otherData"])
    process: dict[int, str] = {}
    thread: dict[tuple[int, int], str] = {}
    at: dict[tuple[int, int, int], ReadSlice] = {}

    def ns(text: str) -> int:
        whole, _, decimals = text.partition(".")
        assert len(decimals) == 3, "microseconds with three digits"
        return int(whole) * 1000 + int(decimals)

    for event in document["traceEvents"]:
        where = (event["pid"], event["tid"])
        match event["ph"], event["name"]:
            case "M", "process_name":
                process[event["pid"]] = event["args"]["name"]
                read.processes.append(event["args"]["name"])
            case "M", "thread_name":
                assert where not in thread
                thread[where] = event["args"]["name"]
            case "X", name:
                start = ns(event["ts"])
                args = {k: float(v) if "confidence" in k else v for k, v in event["args"].items()}
                one = ReadSlice(
                    process[event["pid"]],
                    thread[where],
                    name,
                    event["cat"],
                    start,
                    start + ns(event["dur"]),
                    args,
                    (),
                )
                read.slices.append(one)
                at[*where, start] = one
            case "C", _:
                (sample,) = event["args"].values()
                values = read.counters.setdefault(process[event["pid"]], [])
                values.append((ns(event["ts"]), float(sample)))
            case (("s" | "f"), _):
                # An arrow belongs to the innermost slice that begins there.
                at[*where, ns(event["ts"])].flows += (event["id"],)
    return read
