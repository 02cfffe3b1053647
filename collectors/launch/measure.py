"""The life of a synthetic graph, timed: capture, instantiation, first and later launches.

Each step follows NVIDIA's sample cudaGraphsPerfScaling: kernels that do nothing, captured from
streams; a launch into an empty stream timed by the CPU's clock; a launch behind a kernel that
waits, timed by events on the GPU; an executable made anew for what only a first launch does.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any, Final

from cuda.bindings import driver, runtime

from collectors.driver.calls import call
from collectors.launch.kernels import Latch, load
from graphviz_dash.model.launch import LaunchMeasure, Topology

Samples = dict[LaunchMeasure, int]

MOST_QUEUED: Final = 512
"""Launches that are surely queued behind a kernel that waits: the queue has 1,024 places, and a
launch into a full one waits for the GPU, which waits for us."""

_BYTES: Final = 64


# What a Host node calls: C's free of no memory, which does nothing and needs no interpreter.
_NOTHING: Final = ctypes.cast(ctypes.CDLL(None).free, ctypes.c_void_p).value


class Bench:
    """Streams, kernels and memory for graphs of at most ``width`` chains.

    Raises, from every method:
        DriverError: a call of the driver failed.
    """

    def __init__(self, width: int) -> None:
        call(runtime.cudaFree, 0)
        self._empty, self._hold = load()
        # Blocking streams, as the sample's; two at least, for the upload.
        self._streams = [call(runtime.cudaStreamCreate) for _ in range(max(width, 2))]
        self._fork = call(runtime.cudaEventCreateWithFlags, runtime.cudaEventDisableTiming)
        self._begin, self._end = (call(runtime.cudaEventCreate) for _ in range(2))
        self._latch = Latch()
        self._memory = [call(runtime.cudaMalloc, _BYTES) for _ in range(2)]

    def measure(self, topology: Topology) -> Samples:
        """One trial: every measure of a graph of ``topology``, in ns.

        A launch that could not be queued behind the waiting kernel has no device time; its measure
        is left out.
        """
        samples: Samples = {}
        graph = self._captured(topology, samples)
        executable = self._instantiated(graph, samples)
        self._launched_twice(executable, samples)
        executable = self._on_further_executable(graph, executable)
        main = self._streams[0]
        for measure in (LaunchMeasure.FIRST_LAUNCH_DEVICE, LaunchMeasure.REPEAT_LAUNCH_DEVICE):
            self._behind(
                lambda: call(runtime.cudaGraphLaunch, executable, main), main, samples, measure
            )
        executable = self._on_further_executable(graph, executable)
        self._uploaded(executable, samples)
        call(runtime.cudaGraphExecDestroy, executable)
        call(runtime.cudaGraphDestroy, graph)
        return samples

    def count_nodes(self, topology: Topology) -> int:
        """The nodes of a graph of ``topology``, as the driver counts them."""
        graph = self._captured(topology, {})
        count = int(call(runtime.cudaGraphGetNodes, graph, 0)[1])
        call(runtime.cudaGraphDestroy, graph)
        return count

    def _captured(self, topology: Topology, samples: Samples) -> Any:
        mode = runtime.cudaStreamCaptureMode.cudaStreamCaptureModeGlobal
        begin = time.perf_counter_ns()
        call(runtime.cudaStreamBeginCapture, self._streams[0], mode)
        self._issue(topology)
        graph = call(runtime.cudaStreamEndCapture, self._streams[0])
        samples[LaunchMeasure.CAPTURE] = time.perf_counter_ns() - begin
        return graph

    def _instantiated(self, graph: Any, samples: Samples) -> Any:
        instantiate, clock = runtime.cudaGraphInstantiate, time.perf_counter_ns
        begin = clock()
        status, executable = instantiate(graph, 0)
        samples[LaunchMeasure.INSTANTIATION] = clock() - begin
        call(lambda: (status,))
        return executable

    def _launched_twice(self, executable: Any, samples: Samples) -> None:
        """The first launch and the next one, each into an empty stream.

        As in the sample, nothing but the two readings of the clock lies between them; nor is
        anything looked up or checked there. That the calls are made from Python costs about 0.4 µs,
        and more right after the first launch of a large graph
        (evaluation/reports/2026-11-21-launch-costs.md).
        """
        launch, wait = runtime.cudaGraphLaunch, runtime.cudaStreamSynchronize
        stream, clock = self._streams[0], time.perf_counter_ns
        begin = clock()
        launched = launch(executable, stream)
        returned = clock()
        waited = wait(stream)
        done = clock()
        again = clock()
        relaunched = launch(executable, stream)
        returned_again = clock()
        rewaited = wait(stream)
        done_again = clock()
        for status in (launched, waited, relaunched, rewaited):
            call(lambda status=status: status)
        samples[LaunchMeasure.FIRST_LAUNCH_CPU] = returned - begin
        samples[LaunchMeasure.FIRST_LAUNCH] = done - begin
        samples[LaunchMeasure.REPEAT_LAUNCH_CPU] = returned_again - again
        samples[LaunchMeasure.REPEAT_LAUNCH] = done_again - again

    def _on_further_executable(self, graph: Any, executable: Any) -> Any:
        """Another executable, whose next launch is a first one."""
        call(runtime.cudaGraphExecDestroy, executable)
        return call(runtime.cudaGraphInstantiate, graph, 0)

    def _behind(
        self, work: Callable[[], object], stream: Any, samples: Samples, measure: LaunchMeasure
    ) -> int:
        """GPU time of ``work``, queued behind a kernel that waits; returns its CPU time in ns."""
        self._latch.close()
        arguments = self._latch.arguments
        call(driver.cuLaunchKernel, self._hold, 1, 1, 1, 1, 1, 1, 0, int(stream), arguments, 0)
        call(runtime.cudaEventRecord, self._begin, stream)
        begin = time.perf_counter_ns()
        work()
        took = time.perf_counter_ns() - begin
        call(runtime.cudaEventRecord, self._end, stream)
        self._latch.open()
        call(runtime.cudaStreamSynchronize, stream)
        if not self._latch.gave_up:
            elapsed_ms = call(runtime.cudaEventElapsedTime, self._begin, self._end)
            samples[measure] = round(elapsed_ms * 1e6)
        return took

    def _uploaded(self, executable: Any, samples: Samples) -> None:
        stream = self._streams[1]
        samples[LaunchMeasure.UPLOAD_CPU] = self._behind(
            lambda: call(runtime.cudaGraphUpload, executable, stream),
            stream,
            samples,
            LaunchMeasure.UPLOAD_DEVICE,
        )

    def measure_streams(self, topology: Topology) -> Samples:
        """One trial of the same work launched call by call."""
        samples: Samples = {}
        main = self._streams[0]
        begin = time.perf_counter_ns()
        self._issue(topology)
        returned = time.perf_counter_ns()
        call(runtime.cudaStreamSynchronize, main)
        samples[LaunchMeasure.STREAM_CPU] = returned - begin
        samples[LaunchMeasure.STREAM] = time.perf_counter_ns() - begin
        if topology.nodes <= MOST_QUEUED:
            self._behind(lambda: self._issue(topology), main, samples, LaunchMeasure.STREAM_DEVICE)
        return samples

    def _issue(self, topology: Topology) -> None:
        """Gives the work to the streams, whether they are being captured or not."""
        launch, empty, streams = driver.cuLaunchKernel, self._empty, self._streams
        handles = [int(stream) for stream in streams[: topology.width]]
        if topology.single_root:
            launch(empty, 1, 1, 1, 1, 1, 1, 0, handles[0], 0, 0)
        if topology.width > 1:
            call(runtime.cudaEventRecord, self._fork, streams[0])
            for stream in streams[1 : topology.width]:
                call(runtime.cudaStreamWaitEvent, stream, self._fork, 0)
        for index, handle in enumerate(handles):
            count = topology.length
            if index == 0 and topology.other is not None:
                for _ in range(count // 2):
                    launch(empty, 1, 1, 1, 1, 1, 1, 0, handle, 0, 0)
                self._other(topology.other)
                count -= count // 2 + 1
            for _ in range(count):
                launch(empty, 1, 1, 1, 1, 1, 1, 0, handle, 0, 0)
        for stream in streams[1 : topology.width]:
            call(runtime.cudaEventRecord, self._fork, stream)
            call(runtime.cudaStreamWaitEvent, streams[0], self._fork, 0)

    def _other(self, kind: str) -> None:
        stream, (target, source) = self._streams[0], self._memory
        match kind:
            case "Memcpy":
                way = runtime.cudaMemcpyKind.cudaMemcpyDeviceToDevice
                call(runtime.cudaMemcpyAsync, target, source, _BYTES, way, stream)
            case "Memset":
                call(runtime.cudaMemsetAsync, target, 0, _BYTES, stream)
            case "Host":
                self._host_function(stream)

    def _host_function(self, stream: Any) -> None:
        function = driver.CUhostFn(_NOTHING)
        status, graph, before = self._capture_info(stream)
        if status == 0:
            call(driver.cuLaunchHostFunc, int(stream), function, 0)
            return
        # cuda-python frees what it hands to cuLaunchHostFunc after the first call, and a replay
        # makes more than one; a node that is added to the graph is not wrapped.
        params = driver.CUDA_HOST_NODE_PARAMS()
        params.fn = function
        node = call(driver.cuGraphAddHostNode, graph, before, len(before), params)
        flags = driver.CUstreamUpdateCaptureDependencies_flags
        replace = int(flags.CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        update = driver.cuStreamUpdateCaptureDependencies
        call(update, int(stream), [node], None, 1, replace)

    def _capture_info(self, stream: Any) -> tuple[int, Any, list[Any]]:
        """Whether the stream captures (0: not), the graph, and what the next node depends on."""
        info = call(driver.cuStreamGetCaptureInfo, int(stream))
        return int(info[0]), info[2], list(info[3] or ())
