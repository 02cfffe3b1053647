"""Run the node-id pass: replays under cupti-python, whose records identify graph nodes.

torch.profiler is not used because CUPTI supports only one of the two. Steps end synchronized, so a
record belongs to the step in which it starts.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeAlias

import torch
from cupti import cupti

from collectors.cupti.node_records import Record, build_node_id_pass
from collectors.driver.graph_ids import read_cupti_ids
from collectors.passes.capture_listener import CaptureListener, record_captures
from collectors.passes.executor import prepare_step
from collectors.passes.modes import prepare_mode
from collectors.process.requests import PassRequest
from collectors.process.results import write_result
from graphviz_dash.bundle import parts
from graphviz_dash.bundle.demangle import demangle
from graphviz_dash.model.node_ids import NodeSignature

_SETTLE_ITERATIONS = 3
"""Discarded iterations while CUPTI allocates its buffers."""

_BUFFER: Final = 8 << 20

Kinds: TypeAlias = tuple[Any, ...]


def run(request: PassRequest) -> None:
    """Write node-ids.json.gz to ``request.out``."""
    step, _ = prepare_step(request)
    with record_captures(CaptureListener()) as graphs:
        iterate = prepare_mode(request.mode, step, request.plan)
        ids = read_cupti_ids(cupti, graphs)
    records, begins, dropped = _record_steps(iterate, request.traced_iterations)
    replays = build_node_id_pass(
        source=f"cupti-python {version('cupti-python')}",
        graphs=ids,
        records=records,
        step_starts=begins,
        dropped=dropped,
    )
    write_result(parts.NODE_IDS, replays, Path(request.out))


def _record_steps(
    iterate: Callable[[], object], iterations: int
) -> tuple[list[Record], tuple[int, ...], int]:
    """Return the records, the start of each iteration, and the number of lost records."""
    kinds: Kinds = (
        cupti.ActivityKind.CONCURRENT_KERNEL,
        cupti.ActivityKind.MEMCPY,
        cupti.ActivityKind.MEMSET,
    )
    reader = _RecordReader(cupti)
    cupti.activity_register_callbacks(lambda: (_BUFFER, 0), reader.on_buffer_complete)
    for kind in kinds:
        cupti.activity_enable(kind)
    for _ in range(_SETTLE_ITERATIONS):
        iterate()
        torch.cuda.synchronize()
    step_starts = []
    for _ in range(iterations):
        step_starts.append(int(cupti.get_timestamp()))
        iterate()
        torch.cuda.synchronize()
    cupti.activity_flush_all(1)
    for kind in kinds:
        cupti.activity_disable(kind)
    return reader.records, tuple(step_starts), _count_dropped(cupti)


def _count_dropped(api: ModuleType) -> int:
    count = ctypes.c_size_t(0)
    api.activity_get_num_dropped_records(0, 0, ctypes.addressof(count))
    return count.value


class _RecordReader:
    def __init__(self, api: ModuleType) -> None:
        self.records: list[Record] = []
        self._looks: dict[tuple[Any, ...], NodeSignature] = {}
        self._memcpy = int(api.ActivityKind.MEMCPY)
        self._memset = int(api.ActivityKind.MEMSET)
        self._directions = {
            int(kind): kind.name.replace("TO", "to") for kind in api.ActivityMemcpyKind
        }

    def on_buffer_complete(self, activities: list[Any]) -> None:
        for activity in activities:
            self.records.append(
                Record(
                    look=self._get_look(activity),
                    graph=activity.graph_id,
                    node=activity.graph_node_id,
                    correlation=activity.correlation_id,
                    device=activity.device_id,
                    stream=activity.stream_id,
                    start=activity.start,
                    end=activity.end,
                )
            )

    def _get_look(self, activity: Any) -> NodeSignature:
        if activity.kind == self._memcpy:
            key: tuple[Any, ...] = ("memcpy", activity.copy_kind, activity.bytes)
        elif activity.kind == self._memset:
            key = ("memset", 0, activity.bytes)
        else:
            grid = (activity.grid_x, activity.grid_y, activity.grid_z)
            block = (activity.block_x, activity.block_y, activity.block_z)
            shared = activity.static_shared_memory + activity.dynamic_shared_memory
            key = ("kernel", activity.name, grid, block, shared, activity.registers_per_thread)
        if key not in self._looks:
            self._looks[key] = self._build_look(key)
        return self._looks[key]

    def _build_look(self, key: tuple[Any, ...]) -> NodeSignature:
        match key:
            case ("memcpy", kind, size):
                name = f"Memcpy {self._directions.get(int(kind), 'unknown')}"
                return NodeSignature("memcpy", name, None, None, None, None, size)
            case ("memset", _, size):
                return NodeSignature("memset", "Memset", None, None, None, None, size)
            case (_, name, grid, block, shared, registers):
                return NodeSignature("kernel", demangle(name), grid, block, shared, registers, None)
            case _:
                raise AssertionError(key)
