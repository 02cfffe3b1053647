"""A node's few words tell what its kind alone does not."""

from __future__ import annotations

import pytest

from graphviz_dash.charts.dag.node_note import node_note
from graphviz_dash.model.graph import (
    BatchMemOpParams,
    ConditionalParams,
    ConditionalType,
    EventParams,
    GraphNode,
    HostParams,
    MemAllocParams,
    MemcpyParams,
    MemFreeParams,
    MemsetParams,
    NodeKind,
    Params,
    SemaphoreParams,
)


@pytest.mark.parametrize(
    ("kind", "params", "note"),
    [
        (
            NodeKind.MEMCPY,
            MemcpyParams("host", "device", "HtoD", 2048, 2048, 1, 1),
            "Memcpy, 2.00 KiB",
        ),
        (NodeKind.MEMSET, MemsetParams(0, 4, 1, 1, 4), "Memset, 4 B"),
        (NodeKind.MEM_ALLOC, MemAllocParams(1 << 20, 0), "1.00 MiB on device 0"),
        (NodeKind.MEM_FREE, MemFreeParams(3), "allocated by node 3"),
        (NodeKind.MEM_FREE, MemFreeParams(None), "MemFree"),
        (NodeKind.HOST, HostParams("sem_post", "libc.so.6"), "CPU, libc.so.6"),
        (NodeKind.HOST, HostParams(None, None), "Host"),
        (NodeKind.SEMAPHORE_WAIT, SemaphoreParams((0, 2), (0, 0)), "semaphore 0, 2"),
        (NodeKind.CONDITIONAL, ConditionalParams(ConditionalType.IF, 2), "Conditional, 2 bodies"),
        (NodeKind.CONDITIONAL, ConditionalParams(ConditionalType.IF, 1), "Conditional, 1 body"),
        (NodeKind.CONDITIONAL, ConditionalParams(None, None), "Conditional"),
        (NodeKind.BATCH_MEM_OP, BatchMemOpParams(("write value 32",)), "write value 32"),
        (NodeKind.BATCH_MEM_OP, BatchMemOpParams(()), "BatchMemOp"),
        (NodeKind.EVENT_WAIT, EventParams(1), "EventWait"),
        (NodeKind.EMPTY, None, "Empty"),
    ],
)
def test_in_a_few_words(kind: NodeKind, params: Params | None, note: str) -> None:
    assert node_note(GraphNode(0, kind, params)) == note
