from __future__ import annotations

import pytest

from graphviz_dash.analysis.nodes.node_table import NO_TIMES, NodeOrigin, NodeRow
from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.features.graph.drawing.node_note import (
    build_node_lines,
    describe_node,
    format_module_tail,
)
from graphviz_dash.model.graph import (
    BatchMemOpParams,
    ConditionalParams,
    ConditionalType,
    EventParams,
    GraphNode,
    HostParams,
    KernelParams,
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
        (
            NodeKind.KERNEL,
            KernelParams("k", "k", (16, 4, 1), (128, 1, 1), 0),
            "grid 16 x 4, block 128",
        ),
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
    assert describe_node(GraphNode(0, kind, params)) == note


@pytest.mark.parametrize(
    ("op", "module", "above", "lines"),
    [
        # Boxes of one operator differ by module.
        ("aten::addmm", "Net.layers.0.mlp", "", ("addmm", "mlp · sgemm")),
        ("aten::addmm", "Net.layers.0.mlp", "Net.layers.0.mlp", ("addmm", "sgemm")),
        ("aten::addmm", "Net.layers.0.mlp", "mlp", ("addmm", "sgemm")),
        ("aten::addmm", "Net.layers.2", "", ("addmm", "layers.2 · sgemm")),
        ("vllm::attention", None, "", ("vllm::attention", "sgemm")),
        (None, "Net.layers.0.mlp", "Net.layers.0", ("mlp", "sgemm")),
        # What the box around it says already.
        (None, "Net.layers.0.mlp", "Net.layers.0.mlp", ("sgemm", "grid 1, block 1")),
        (None, None, "", ("sgemm", "grid 1, block 1")),
        ("sgemm", None, "", ("sgemm", "grid 1, block 1")),
    ],
)
def test_the_operator_or_module_comes_before_the_kernel(
    op: str | None, module: str | None, above: str, lines: tuple[str, str]
) -> None:
    kernel = KernelParams("k", "void ns::sgemm<float>(int)", (1, 1, 1), (1, 1, 1), 0)
    row = NodeRow(
        GraphNode(0, NodeKind.KERNEL, kernel),
        Category.GEMM,
        NodeOrigin("capture order", 1.0, op=op, module=module),
        NO_TIMES,
    )
    assert build_node_lines(row, above) == lines


def test_a_module_goes_without_the_class_that_all_share() -> None:
    assert [format_module_tail(each) for each in ("Net.layers.0", "Net", None)] == [
        "layers.0",
        "Net",
        "",
    ]
