from __future__ import annotations

from collections import Counter

from graphviz_dash.model.graph import EdgeType, KernelParams, MemcpyParams, MemsetParams, NodeKind


def test_explicit_graph_is_read_as_built() -> None:
    import torch
    from cuda.bindings import runtime

    from collectors.driver.topology import call, read_graph

    buffer = torch.zeros(1024, dtype=torch.uint8, device="cuda")
    pinned = torch.zeros(1024, dtype=torch.uint8, pin_memory=True)
    graph = call(runtime.cudaGraphCreate, 0)
    child = call(runtime.cudaGraphCreate, 0)
    call(runtime.cudaGraphAddEmptyNode, child, None, 0)
    event = call(runtime.cudaEventCreate)

    fill = runtime.cudaMemsetParams()
    fill.dst, fill.value, fill.elementSize, fill.width, fill.height = buffer.data_ptr(), 7, 4, 64, 1
    first = call(runtime.cudaGraphAddMemsetNode, graph, None, 0, fill)
    copy = call(
        runtime.cudaGraphAddMemcpyNode1D,
        graph,
        [first],
        1,
        pinned.data_ptr(),
        buffer.data_ptr(),
        512,
        runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost,
    )
    record = call(runtime.cudaGraphAddEventRecordNode, graph, [first], 1, event)
    body = call(runtime.cudaGraphAddChildGraphNode, graph, [copy, record], 2, child)
    call(runtime.cudaGraphAddEmptyNode, graph, [body], 1)

    whole, inner = read_graph(int(graph), "g")

    assert [node.kind for node in whole.nodes] == [
        NodeKind.MEMSET,
        NodeKind.MEMCPY,
        NodeKind.EVENT_RECORD,
        NodeKind.CHILD_GRAPH,
        NodeKind.EMPTY,
    ]
    assert whole.nodes[0].params == MemsetParams(
        value=7, element_bytes=4, width=64, height=1, bytes=256
    )
    copied = whole.nodes[1].params
    assert isinstance(copied, MemcpyParams)
    assert (copied.direction, copied.bytes) == ("DtoH", 512)
    assert {(edge.source, edge.target) for edge in whole.edges} == {
        (0, 1),
        (0, 2),
        (1, 3),
        (2, 3),
        (3, 4),
    }
    assert {edge.type for edge in whole.edges} == {EdgeType.FULL}
    assert whole.nodes[3].bodies == (inner.id,)
    assert inner.parent == ("g", 3)
    assert [node.kind for node in inner.nodes] == [NodeKind.EMPTY]
    for handle in (graph, child):
        call(runtime.cudaGraphDestroy, handle)


def test_captured_kernel_has_its_launch_shape_and_demangled_name() -> None:
    import torch

    from collectors.driver.topology import read_graph

    data = torch.zeros(1 << 20, device="cuda")
    data.add_(1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        data.add_(1)
    (read,) = read_graph(graph.raw_cuda_graph(), "g")
    assert Counter(node.kind for node in read.nodes) == {NodeKind.KERNEL: 1}
    params = read.nodes[0].params
    assert isinstance(params, KernelParams)
    assert params.name.startswith("_Z")
    assert "at::native::vectorized_elementwise_kernel<" in params.demangled
    # A vectorised kernel covers its elements once: blocks * threads * elements a thread.
    threads = params.grid[0] * params.block[0]
    assert (1 << 20) % threads == 0
    assert 1 <= (1 << 20) // threads <= 32
    assert params.registers
    assert read.edges == ()
