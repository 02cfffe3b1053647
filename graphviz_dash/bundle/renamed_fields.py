"""Conversion of field names of earlier versions on read.

Version 8 of the run bundle, version 3 of calibrations and version 3 of launch recordings renamed
fields. Readers rename them before decoding, so that the rest of the program knows only the present
names.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, inspect

from graphviz_dash.model.calibration import Calibration
from graphviz_dash.model.compilation import (
    CompiledFrame,
    CompileWarning,
    FactSource,
    GraphBreak,
    Recompile,
)
from graphviz_dash.model.doctor import CodeLocation, Finding, OutputCheck
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.launch import Topology
from graphviz_dash.model.loop import GraphCost, LoopSteps, ProgramLoop
from graphviz_dash.model.memory import GraphMemory, MemoryPass
from graphviz_dash.model.node_ids import GraphIds, NodeIdPass
from graphviz_dash.model.observers import ObserverPass
from graphviz_dash.model.parallel import Attempt, Operator, ParallelPlan, Storage
from graphviz_dash.model.recording import ProcessOrigin, Recording
from graphviz_dash.model.replay_check import (
    CheckedOperator,
    ForeignNodes,
    MemoryFate,
    NodeOwner,
    ReplayStop,
    TensorDifference,
    ValueCheck,
    WrongElements,
)
from graphviz_dash.model.run import Absent, Failure, GraphUpdate, Manifest
from graphviz_dash.model.timings import CleanProcess, GpuClocks

RENAMED_FIELDS: Final[dict[type[Struct], dict[str, str]]] = {
    Manifest: {"recorded": "recorded_at"},
    Failure: {"during": "stage"},
    GraphUpdate: {"of": "source_graph", "by": "target_graph", "answer": "result"},
    CleanProcess: {
        "began_ns": "start_unix_ns",
        "steps": "step_count",
        "back_to_back": "back_to_back_count",
    },
    GpuClocks: {"slowed_by": "throttle_reasons"},
    CapturedGraph: {
        "read_by": "source_api",
        "captured_as": "capture_index",
        "captured_in": "capture_trace_index",
    },
    GraphMemory: {"kept_bytes": "retained_bytes"},
    MemoryPass: {
        "at_rest": "owners_at_end",
        "at_peak": "owners_at_peak",
        "live": "live_extents",
    },
    GraphIds: {"launched_as": "executable_ids"},
    NodeIdPass: {
        "dropped": "dropped_records",
        "outside": "outside_records",
        "looks": "signatures",
    },
    ObserverPass: {"observed": "series"},
    CodeLocation: {"first": "first_line"},
    Finding: {
        "seen": "detected_by",
        "first": "ends_capture",
        "place": "location",
        "calls": "calls_per_step",
    },
    OutputCheck: {
        "differing": "differing_elements",
        "largest": "max_difference",
        "noise": "eager_difference",
    },
    ProcessOrigin: {"started_by": "start_method"},
    Recording: {
        "rung": "boundary_kind",
        "skip": "skip_steps",
        "window": "requested_window_steps",
        "marked": "window_steps",
        "window_refused": "window_missing_reason",
        "profiler_seen": "profiler_active",
        "drain_ns": "final_wait_ns",
        "ended": "reached_end",
    },
    GraphCost: {
        "pool_added_bytes": "pool_growth_bytes",
        "own_bytes": "exclusive_bytes",
        "outside_bytes": "driver_bytes",
    },
    LoopSteps: {"real": "real_size", "padded": "padded_size", "begin_ns": "start_ns"},
    ProgramLoop: {"steps_seen": "step_count", "window_steps": "window_rows"},
    Storage: {"maker": "creator"},
    Operator: {"wide": "needs_wide_stream", "large": "large_blocks"},
    Attempt: {
        "line_ns": "serial_ns",
        "expected_ns": "predicted_ns",
        "expected_bytes": "predicted_bytes",
    },
    ParallelPlan: {
        "stream": "streams",
        "follow_ns": "same_stream_gap_ns",
        "cross_ns": "cross_stream_gap_ns",
        "line": "serial",
        "chosen": "selected_streams",
        "narrow_line_ns": "narrow_serial_ns",
        "fitted_bytes": "workspace_bytes",
    },
    CheckedOperator: {"place": "location"},
    NodeOwner: {"place": "location"},
    MemoryFate: {"free_place": "free_location"},
    ReplayStop: {"capture_place": "capture_location"},
    WrongElements: {"differing": "differing_elements"},
    ValueCheck: {"differing": "difference_count"},
    TensorDifference: {"noise": "eager_difference"},
    ForeignNodes: {"before": "next_operator"},
    FactSource: {"missing": "missing_reason"},
    CompiledFrame: {"place": "location", "resumes": "is_continuation"},
    GraphBreak: {"whole_frame": "runs_eagerly"},
    Recompile: {"limit": "limit_reached"},
    CompileWarning: {"times": "count"},
    Calibration: {"recorded": "recorded_at", "checks": "holdout_samples"},
    Topology: {"other": "middle_node"},
}
"""New name by earlier name, by record."""

RENAMED_VALUES: Final[dict[tuple[type[Struct], str], dict[str, str]]] = {
    (Absent, "fact"): {"whole recording": "complete recording"}
}
"""New text by earlier text, by record and present field name."""


def rename_fields(content: bytes, kind: Any) -> bytes:
    """Rename the fields of an earlier version in ``content``, the JSON of a ``kind``.

    Content of another shape stays unchanged, so that decoding reports its error.

    Raises:
        msgspec.DecodeError: Not JSON.
    """
    return msgspec.json.encode(_rename(Raw(content), _inspect(kind)))


@cache
def _inspect(kind: Any) -> inspect.Type:
    """Describe a type once, which costs more than decoding a small part."""
    return inspect.type_info(kind)


def _rename(content: Raw, info: inspect.Type) -> object:
    """Rename the fields; parts without renamed fields stay text."""
    if not _has_new_names(info):
        return content
    try:
        if isinstance(info, inspect.StructType) and not info.array_like:
            return _rename_struct(msgspec.json.decode(content, type=dict[str, Raw]), info)
        if isinstance(info, inspect.VarTupleType):
            items = msgspec.json.decode(content, type=list[Raw])
            return [_rename(item, info.item_type) for item in items]
    except msgspec.ValidationError:
        return content
    members = (member for member in _list_members(info) if _has_new_names(member))
    return _rename(content, next(members))


def _rename_struct(fields: dict[str, Raw], info: inspect.StructType) -> dict[str, object]:
    names = RENAMED_FIELDS.get(info.cls, {})
    types = {field.encode_name: field.type for field in info.fields}
    result: dict[str, object] = {}
    for field, value in fields.items():
        name = names.get(field, field)
        if name in fields:
            name = field
        if texts := RENAMED_VALUES.get((info.cls, name)):
            text = msgspec.json.decode(value)
            result[name] = texts.get(text, text)
        else:
            result[name] = _rename(value, types[name]) if name in types else value
    return result


def _has_new_names(info: inspect.Type) -> bool:
    """Test if the type may contain a renamed field or value."""
    if isinstance(info, inspect.StructType):
        return _has_new_fields(info.cls)
    return any(_has_new_names(member) for member in _list_members(info))


@cache
def _has_new_fields(record: type[Struct]) -> bool:
    """Test if a record, or one in its fields, has a renamed field or value."""
    if record in RENAMED_FIELDS or any(record is owner for owner, _ in RENAMED_VALUES):
        return True
    info = _inspect(record)
    assert isinstance(info, inspect.StructType)
    return any(_has_new_names(field.type) for field in info.fields)


def _list_members(info: inspect.Type) -> tuple[inspect.Type, ...]:
    """List the types of the items of a collection, or of the alternatives of a union."""
    if isinstance(info, inspect.UnionType):
        return info.types
    return (info.item_type,) if isinstance(info, inspect.VarTupleType) else ()
