"""The node-id pass as a trace, for every consumer of traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphviz_dash.model.marks import STEP
from graphviz_dash.model.trace import (
    ANNOTATION_COLUMNS,
    GPU_COLUMNS,
    OP_COLUMNS,
    PYTHON_COLUMNS,
    RUNTIME_COLUMNS,
    Trace,
    TraceInfo,
)

if TYPE_CHECKING:
    import polars as pl

    from graphviz_dash.model.node_ids import NodeIdPass, NodeIdRow

_TYPES = {
    "int64": "Int64",
    "int32": "Int32",
    "uint64": "UInt64",
    "string": "String",
    "categorical": "Categorical",
}
"""Names in polars, which is imported late to speed up the start."""


def build_node_id_trace(node_ids: NodeIdPass, with_ids: bool = True) -> Trace:
    """Build a trace from the records: GPU rows by start, with a launch call and step range for
    each.

    Launch calls are not timed, so each is placed before its first row and those of later calls.
    ``with_ids`` False omits graph and node ids, as in traces of torch before 2.12.
    """
    rows = sorted(node_ids.rows, key=lambda row: row.start_ns)
    launch = np.array([row.launch for row in rows], dtype=np.int64)
    start = np.array([row.start_ns for row in rows], dtype=np.int64)
    end = start + np.array([row.duration_ns for row in rows], dtype=np.int64)
    launch_ids, first = np.unique(launch, return_index=True)
    launch_starts = np.minimum.accumulate(start[first][::-1])[::-1]
    step_of = np.array(node_ids.launch_steps, dtype=np.int64)[launch_ids]
    steps, first_of_step = np.unique(step_of, return_index=True)
    begins = launch_starts[first_of_step]
    ends = np.array(
        [end[step_of[np.searchsorted(launch_ids, launch)] == step].max() for step in steps]
    )
    calls = {
        "ts": launch_starts,
        "dur": np.zeros(len(launch_ids), dtype=np.int64),
        "name": ["cudaGraphLaunch"] * len(launch_ids),
        "pid": [0] * len(launch_ids),
        "tid": [0] * len(launch_ids),
        "correlation": launch_ids,
        "external_id": [None] * len(launch_ids),
    }
    ranges = {
        "ts": begins,
        "dur": ends - begins if len(steps) else [],
        "name": [f"{STEP}{step}" for step in steps.tolist()],
        "pid": [0] * len(steps),
        "tid": [0] * len(steps),
    }
    return Trace(
        info=_build_info(node_ids, int(end.max(initial=0))),
        gpu=_build_table(_build_gpu_columns(node_ids, rows, with_ids), GPU_COLUMNS),
        runtime=_build_table(calls, RUNTIME_COLUMNS),
        ops=_build_table({}, OP_COLUMNS),
        annotations=_build_table(ranges, ANNOTATION_COLUMNS),
        python=_build_table({}, PYTHON_COLUMNS),
    )


def _build_gpu_columns(
    node_ids: NodeIdPass, rows: Sequence[NodeIdRow], with_ids: bool
) -> dict[str, list[Any]]:
    looks = [node_ids.signatures[row.signature] for row in rows]
    grids = [look.grid or (None, None, None) for look in looks]
    blocks = [look.block or (None, None, None) for look in looks]
    return {
        "ts": [row.start_ns for row in rows],
        "dur": [row.duration_ns for row in rows],
        "kind": [look.kind for look in looks],
        "name": [look.name for look in looks],
        "device": [row.device for row in rows],
        "stream": [row.stream for row in rows],
        "correlation": [row.launch for row in rows],
        "external_id": [None] * len(rows),
        **{f"grid_{axis}": [grid[index] for grid in grids] for index, axis in enumerate("xyz")},
        **{f"block_{axis}": [block[index] for block in blocks] for index, axis in enumerate("xyz")},
        "shared": [look.shared for look in looks],
        "registers": [look.registers for look in looks],
        "bytes": [look.bytes for look in looks],
        "graph_id": [row.graph if with_ids else None for row in rows],
        "graph_node_id": [row.node if with_ids else None for row in rows],
    }


def _build_table(columns: Mapping[str, Any], declared: dict[str, str]) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame(
        {
            name: pl.Series(
                name, columns.get(name, []), dtype=getattr(pl, _TYPES[kind]), strict=False
            )
            for name, kind in declared.items()
        }
    )


def _build_info(node_ids: NodeIdPass, end: int) -> TraceInfo:
    return TraceInfo(
        source=node_ids.source,
        events=len(node_ids.rows),
        skipped={},
        origin_ns=0,
        end_ns=end,
        cupti_version=None,
        cuda_runtime_version=None,
        cuda_driver_version=None,
        device_names=(),
        with_stack=False,
        record_shapes=False,
        problems=(),
    )
