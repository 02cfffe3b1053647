"""``all-nodes``: a step whose graph has every kind of node that the driver allows.

Run eagerly, the same work is issued to streams, and the CPU reads values back to make the decisions
of the conditional nodes. The If alternates between its bodies from step to step, and the Switch
cycles through its three bodies and none.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any, Final

import torch
from cuda.bindings import driver

from collectors.driver.calls import DriverError, call
from collectors.workloads.explicit import (
    FLOAT,
    HANDLE,
    INT,
    POINTER,
    UINT,
    Arguments,
    GraphBuilder,
    Kernels,
    build_wait,
    build_write,
    continue_after,
    create_graph,
    get_capture_builder,
)
from collectors.workloads.vulkan import VulkanError, create_semaphore_fd
from graphviz_dash.model.absence import Fact
from graphviz_dash.model.run import Absent

COUNT: Final = 1 << 18

ITERATIONS: Final = 3
"""Iterations of the While body per step."""

THREADS: Final = 256
BLOCKS: Final = COUNT // THREADS
SIZE: Final = 4 * COUNT

SOURCE: Final = r"""
extern "C" __device__ __cudart_builtin__ void CUDARTAPI cudaGraphSetConditional(
    cudaGraphConditionalHandle handle, unsigned int value);

// A kernel whose dependent may start before it ends, and that dependent.
extern "C" __global__ void scale(float *to, const float *from, float factor, int count) {
    asm volatile("griddepcontrol.launch_dependents;");
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) to[at] = factor * from[at];
}
extern "C" __global__ void shift(float *to, const float *from, float by, int count) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) to[at] = from[at] + by;
}
extern "C" __global__ void smooth(float *to, const float *from, int count) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) to[at] = 0.5f * (from[at] + from[(at + 1) % count]);
}

// state: step number and remaining iterations of the While. Without handles
// (eagerly) the CPU reads the state and decides.
extern "C" __global__ void decide(unsigned *state, unsigned turns, unsigned with_handles,
                                  cudaGraphConditionalHandle choose,
                                  cudaGraphConditionalHandle repeat,
                                  cudaGraphConditionalHandle select) {
    unsigned step = state[0]++;
    state[1] = turns;
    if (with_handles) {
        cudaGraphSetConditional(choose, step % 2);
        cudaGraphSetConditional(repeat, turns);
        cudaGraphSetConditional(select, step % 4);
    }
}
extern "C" __global__ void lift(float *data, int count) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) data[at] += 1.0f;
}
extern "C" __global__ void lower(float *data, int count) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) data[at] -= 1.0f;
}
extern "C" __global__ void relax(float *data, int count) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) data[at] *= 0.875f;
}
extern "C" __global__ void again(unsigned *state, unsigned with_handles,
                                 cudaGraphConditionalHandle repeat) {
    unsigned left = --state[1];
    if (with_handles) cudaGraphSetConditional(repeat, left);
}
extern "C" __global__ void square(float *data, int count) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) data[at] = 0.125f * data[at] * data[at];
}
extern "C" __global__ void reflect(float *data, int count) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) data[at] = -data[at];
}
"""


class AllNodes:
    """The step.

    ``result`` is its host copy, shape (COUNT,), float32; ``absent`` lists unsupported features.
    """

    def __init__(self) -> None:
        self._kernels = Kernels(SOURCE)
        self._inputs = torch.linspace(-1.0, 1.0, COUNT).pin_memory()
        self.result = torch.zeros(COUNT).pin_memory()
        self._data = torch.zeros(COUNT, device="cuda")
        self._other = torch.zeros(COUNT, device="cuda")
        self._state = torch.zeros(2, dtype=torch.int32, device="cuda")
        self._seen = torch.zeros(2, dtype=torch.int32).pin_memory()
        self._flag = torch.zeros(1, dtype=torch.int32, device="cuda")
        self._event = call(driver.cuEventCreate, 0)
        self._side_stream = torch.cuda.Stream()
        self._library = ctypes.CDLL(None)
        self._arrived = ctypes.create_string_buffer(64)
        self._library.sem_init(self._arrived, 0, 0)
        self._post = ctypes.cast(self._library.sem_post, ctypes.c_void_p).value or 0
        self.absent: tuple[Absent, ...] = ()
        self._semaphore: Any = None
        try:
            self._semaphore = _import_semaphore()
        except (VulkanError, DriverError) as error:
            self.absent = (Absent(Fact.SEMAPHORE_NODES, f"not tried: {error}"),)
        torch.cuda.synchronize()

    @property
    def arrivals(self) -> int:
        """Number of calls of the host function."""
        value = ctypes.c_int()
        self._library.sem_getvalue(self._arrived, ctypes.byref(value))
        return value.value

    def restart(self) -> None:
        """Make the next step the first."""
        self._state.zero_()
        torch.cuda.synchronize()

    def __call__(self) -> torch.Tensor:
        """Run one step on the current stream, or add its nodes if that stream is capturing."""
        stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
        if torch.cuda.is_current_stream_capturing():
            graph, after = get_capture_builder(stream)
            continue_after(stream, [self._build_graph(graph, after)])
        else:
            self._run_eagerly(stream)
        return self.result

    # -- as a graph ------------------------------------------------------------------------------

    def _build_graph(self, graph: GraphBuilder, after: list[Any]) -> Any:
        data, other, flag = (tensor.data_ptr() for tensor in (self._data, self._other, self._flag))
        kernels = self._kernels
        load = graph.add_copy(data, self._inputs.data_ptr(), SIZE, "HtoD", after)
        clear = graph.add_fill(flag, 0, 1, after)
        mark = graph.add_memory_operations([build_write(flag, 7), build_wait(flag, 7)], [clear])
        allocation, scratch = graph.add_allocation(SIZE, [load])
        scale = graph.add_kernel(
            kernels["scale"], BLOCKS, THREADS, _get_scale_arguments(scratch, data), [allocation]
        )
        shifted = graph.add_dependent_kernel(
            kernels["shift"], BLOCKS, THREADS, _get_shift_arguments(data, scratch), scale
        )
        freed = graph.add_free(scratch, [shifted])
        with create_graph() as inner:
            copy_node = inner.add_copy(other, data, SIZE, "DtoD", [])
            inner.add_kernel(
                kernels["smooth"], BLOCKS, THREADS, _get_smooth_arguments(data, other), [copy_node]
            )
            smoothed = graph.add_child(inner.graph, [shifted])
        recorded = graph.add_event_record(self._event, [smoothed])
        joined = graph.add_empty([freed, recorded, mark])
        waited = graph.add_event_wait(self._event, [joined])
        decision = self._add_decisions(graph, waited)
        if self._semaphore is not None:
            signalled = graph.add_signal(self._semaphore, [decision])
            decision = graph.add_signal_wait(self._semaphore, [signalled])
        stored = graph.add_copy(self.result.data_ptr(), data, SIZE, "DtoH", [decision])
        return graph.add_host_call(self._post, ctypes.addressof(self._arrived), [stored])

    def _add_decisions(self, graph: GraphBuilder, after: Any) -> Any:
        data, other = self._data.data_ptr(), self._other.data_ptr()
        kernels, launch_shape = self._kernels, (BLOCKS, THREADS)
        choose, repeat, select = (graph.create_condition() for _ in range(3))
        handles = (choose, repeat, select)
        decided = graph.add_kernel(
            kernels["decide"], 1, 1, self._get_decide_arguments(handles), [after]
        )

        decision, (when, otherwise) = graph.add_conditional("IF", choose, 2, [decided])
        when.add_kernel(kernels["lift"], *launch_shape, _get_data_arguments(data), [])
        otherwise.add_kernel(kernels["lower"], *launch_shape, _get_data_arguments(data), [])

        repeated, (body,) = graph.add_conditional("WHILE", repeat, 1, [decision])
        relaxed = body.add_kernel(kernels["relax"], *launch_shape, _get_data_arguments(data), [])
        body.add_kernel(kernels["again"], 1, 1, self._get_again_arguments(repeat), [relaxed])

        selected, (first, second, third) = graph.add_conditional("SWITCH", select, 3, [repeated])
        first.add_kernel(kernels["square"], *launch_shape, _get_data_arguments(data), [])
        wiped = second.add_fill(other, 0, COUNT, [])
        second.add_kernel(
            kernels["smooth"], *launch_shape, _get_smooth_arguments(other, data), [wiped]
        )
        with create_graph() as inner:
            inner.add_kernel(kernels["reflect"], *launch_shape, _get_data_arguments(data), [])
            third.add_child(inner.graph, [])
        return selected

    # -- eagerly ---------------------------------------------------------------------------------

    def _run_eagerly(self, stream: Any) -> None:
        data, other, flag = (tensor.data_ptr() for tensor in (self._data, self._other, self._flag))
        side_stream = driver.CUstream(self._side_stream.cuda_stream)
        self._side_stream.wait_stream(torch.cuda.current_stream())
        call(driver.cuMemsetD32Async, driver.CUdeviceptr(flag), 0, 1, side_stream)
        call(
            driver.cuStreamBatchMemOp,
            side_stream,
            2,
            [build_write(flag, 7), build_wait(flag, 7)],
            0,
        )
        source = self._inputs.data_ptr()
        call(driver.cuMemcpyHtoDAsync, driver.CUdeviceptr(data), source, SIZE, stream)
        scratch = call(driver.cuMemAllocAsync, SIZE, stream)
        self._launch_kernel(
            "scale", BLOCKS, THREADS, _get_scale_arguments(int(scratch), data), stream
        )
        self._launch_kernel(
            "shift", BLOCKS, THREADS, _get_shift_arguments(data, int(scratch)), stream
        )
        call(driver.cuMemFreeAsync, scratch, stream)
        _copy_on_device(other, data, stream)
        self._launch_kernel("smooth", BLOCKS, THREADS, _get_smooth_arguments(data, other), stream)
        call(driver.cuEventRecord, self._event, stream)
        torch.cuda.current_stream().wait_stream(self._side_stream)
        call(driver.cuStreamWaitEvent, stream, self._event, 0)
        self._launch_kernel("decide", 1, 1, self._get_decide_arguments(None), stream)
        self._decide_on_cpu(stream)
        if self._semaphore is not None:
            semaphores = [self._semaphore]
            signal = [driver.CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS()]
            call(driver.cuSignalExternalSemaphoresAsync, semaphores, signal, 1, stream)
            wait = [driver.CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS()]
            call(driver.cuWaitExternalSemaphoresAsync, semaphores, wait, 1, stream)
        target = self.result.data_ptr()
        call(driver.cuMemcpyDtoHAsync, target, driver.CUdeviceptr(data), SIZE, stream)
        function, arrived = driver.CUhostFn(self._post), ctypes.addressof(self._arrived)
        call(driver.cuLaunchHostFunc, stream, function, arrived)

    def _decide_on_cpu(self, stream: Any) -> None:
        """Run the conditional work, reading each value back from the GPU."""
        data, other = self._data.data_ptr(), self._other.data_ptr()
        step = self._read_state(stream)[0] - 1
        self._launch_kernel(
            "lift" if step % 2 else "lower", BLOCKS, THREADS, _get_data_arguments(data), stream
        )
        while True:
            self._launch_kernel("relax", BLOCKS, THREADS, _get_data_arguments(data), stream)
            self._launch_kernel("again", 1, 1, self._get_again_arguments(None), stream)
            if not self._read_state(stream)[1]:
                break
        match step % 4:
            case 0:
                self._launch_kernel("square", BLOCKS, THREADS, _get_data_arguments(data), stream)
            case 1:
                call(driver.cuMemsetD32Async, driver.CUdeviceptr(other), 0, COUNT, stream)
                self._launch_kernel(
                    "smooth", BLOCKS, THREADS, _get_smooth_arguments(other, data), stream
                )
            case 2:
                self._launch_kernel("reflect", BLOCKS, THREADS, _get_data_arguments(data), stream)

    def _read_state(self, stream: Any) -> tuple[int, int]:
        target, source = self._seen.data_ptr(), driver.CUdeviceptr(self._state.data_ptr())
        call(driver.cuMemcpyDtoHAsync, target, source, 8, stream)
        call(driver.cuStreamSynchronize, stream)
        step, remaining = self._seen.tolist()
        return int(step), int(remaining)

    def _launch_kernel(
        self, name: str, blocks: int, threads: int, args: Arguments, stream: Any
    ) -> None:
        shape = (blocks, 1, 1, threads, 1, 1, 0)
        call(driver.cuLaunchKernel, self._kernels[name], *shape, stream, args, 0)

    # -- arguments of kernels --------------------------------------------------------------------

    def _get_decide_arguments(self, handles: tuple[int, int, int] | None) -> Arguments:
        values = (
            self._state.data_ptr(),
            ITERATIONS,
            int(handles is not None),
            *(handles or (0, 0, 0)),
        )
        return values, (POINTER, UINT, UINT, HANDLE, HANDLE, HANDLE)

    def _get_again_arguments(self, handle: int | None) -> Arguments:
        values = (self._state.data_ptr(), int(handle is not None), handle or 0)
        return values, (POINTER, UINT, HANDLE)


def all_nodes() -> AllNodes:
    """Build a step with every kind of node."""
    return AllNodes()


def _get_scale_arguments(target: int, source: int) -> Arguments:
    return (target, source, 2.0, COUNT), (POINTER, POINTER, FLOAT, INT)


def _get_shift_arguments(target: int, source: int) -> Arguments:
    return (target, source, 0.25, COUNT), (POINTER, POINTER, FLOAT, INT)


def _get_smooth_arguments(target: int, source: int) -> Arguments:
    return (target, source, COUNT), (POINTER, POINTER, INT)


def _get_data_arguments(address: int) -> Arguments:
    return (address, COUNT), (POINTER, INT)


def _copy_on_device(target: int, source: int, stream: Any) -> None:
    addresses = driver.CUdeviceptr(target), driver.CUdeviceptr(source)
    call(driver.cuMemcpyDtoDAsync, *addresses, SIZE, stream)


def _import_semaphore() -> Any:
    """Import a binary Vulkan semaphore into CUDA.

    Raises:
        VulkanError: Vulkan cannot create one.
        DriverError: CUDA cannot import it.
    """
    uuid = call(driver.cuDeviceGetUuid, torch.cuda.current_device())
    descriptor = create_semaphore_fd(bytes(uuid.bytes))
    handle_desc = driver.CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC()
    handle_desc.type = (
        driver.CUexternalSemaphoreHandleType.CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD
    )
    handle_desc.handle.fd = descriptor
    try:
        return call(driver.cuImportExternalSemaphore, handle_desc)
    except DriverError:
        # Only a successful import takes ownership of the descriptor.
        os.close(descriptor)
        raise
