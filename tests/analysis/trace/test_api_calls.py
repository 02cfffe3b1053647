from __future__ import annotations

import pytest

from graphviz_dash.analysis.trace.api_calls import CallClass, get_call_class


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cudaLaunchKernel", CallClass.KERNEL_LAUNCH),
        ("cudaLaunchKernelExC", CallClass.KERNEL_LAUNCH),
        ("cuLaunchKernelEx", CallClass.KERNEL_LAUNCH),
        ("hipExtModuleLaunchKernel", CallClass.KERNEL_LAUNCH),
        ("hipModuleLaunchKernel", CallClass.KERNEL_LAUNCH),
        ("cudaGraphLaunch", CallClass.GRAPH_LAUNCH),
        ("hipGraphLaunch", CallClass.GRAPH_LAUNCH),
        ("cudaGraphInstantiateWithFlags", CallClass.GRAPH),
        ("cudaStreamBeginCapture", CallClass.GRAPH),
        ("cudaMemcpyAsync", CallClass.COPY),
        ("cuMemsetD8Async", CallClass.COPY),
        ("cudaEventSynchronize", CallClass.SYNCHRONISE),
        ("cudaMalloc", CallClass.MEMORY),
        ("urEnqueueKernelLaunch", CallClass.KERNEL_LAUNCH),
        ("piEnqueueKernelLaunch", CallClass.KERNEL_LAUNCH),
        ("urEnqueueUSMMemcpy", CallClass.COPY),
        ("urEnqueueUSMFill", CallClass.COPY),
        ("urQueueFinish", CallClass.SYNCHRONISE),
        ("zeCommandListAppendLaunchKernel", CallClass.OTHER),
        ("cudaFuncSetAttribute", CallClass.OTHER),
        ("cudaStreamIsCapturing", CallClass.OTHER),
        ("myLaunchKernel", CallClass.OTHER),
    ],
)
def test_calls_are_told_by_name(name: str, expected: CallClass) -> None:
    assert get_call_class(name) is expected
