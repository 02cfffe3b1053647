"""Time the life cycle of a synthetic graph: capture, instantiation, first and later launches.

Follows NVIDIA's sample cudaGraphsPerfScaling: empty kernels, launches into an empty stream timed by
the CPU clock, and launches behind a waiting kernel timed by GPU events.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any, Final

from cuda.bindings import driver, runtime

from collectors.driver.calls import call
from collectors.launch.kernels import Latch, load_kernels
from graphviz_dash.model.launch import LaunchMeasure, Topology

Samples = dict[LaunchMeasure, int]

MAX_QUEUED: Final = 512
"""Launches that always fit behind a waiting kernel. The queue has 1,024 entries; a launch into a
full queue would deadlock."""

_BYTES: Final = 64


# Host nodes call C's free(NULL), which does nothing and needs no interpreter.
_NOOP_FUNCTION: Final = ctypes.cast(ctypes.CDLL(None).free, ctypes.c_void_p).value


class LaunchBenchmark:
    """Streams, kernels and memory for graphs of up to ``width`` chains.

    Raises, from every method:
        DriverError: A driver call failed.
    """

    def __init__(self, width: int) -> None:
        call(runtime.cudaFree, 0)
        self._empty, self._hold = load_kernels()
        # Blocking streams, like the sample's; the upload needs two.
        self._streams = [call(runtime.cudaStreamCreate) for _ in range(max(width, 2))]
        self._fork = call(runtime.cudaEventCreateWithFlags, runtime.cudaEventDisableTiming)
        self._begin, self._end = (call(runtime.cudaEventCreate) for _ in range(2))
        self._latch = Latch()
        self._memory = [call(runtime.cudaMalloc, _BYTES) for _ in range(2)]

    def run_trial(self, topology: Topology) -> Samples:
        """Run one trial and return every measure of a graph, in ns.

        Omits device times of launches that could not be queued behind the waiting kernel.
        """
        samples: Samples = {}
        graph = self._capture(topology, samples)
        executable = self._instantiate(graph, samples)
        self._time_two_launches(executable, samples)
        executable = self._replace_executable(graph, executable)
        main = self._streams[0]
        for measure in (LaunchMeasure.FIRST_LAUNCH_DEVICE, LaunchMeasure.REPEAT_LAUNCH_DEVICE):
            self._time_queued(
                lambda: call(runtime.cudaGraphLaunch, executable, main), main, samples, measure
            )
        executable = self._replace_executable(graph, executable)
        self._time_upload(executable, samples)
        call(runtime.cudaGraphExecDestroy, executable)
        call(runtime.cudaGraphDestroy, graph)
        return samples

    def count_nodes(self, topology: Topology) -> int:
        """Return the driver's node count for a graph of ``topology``."""
        graph = self._capture(topology, {})
        count = int(call(runtime.cudaGraphGetNodes, graph, 0)[1])
        call(runtime.cudaGraphDestroy, graph)
        return count

    def _capture(self, topology: Topology, samples: Samples) -> Any:
        mode = runtime.cudaStreamCaptureMode.cudaStreamCaptureModeGlobal
        begin = time.perf_counter_ns()
        call(runtime.cudaStreamBeginCapture, self._streams[0], mode)
        self._issue_work(topology)
        graph = call(runtime.cudaStreamEndCapture, self._streams[0])
        samples[LaunchMeasure.CAPTURE] = time.perf_counter_ns() - begin
        return graph

    def _instantiate(self, graph: Any, samples: Samples) -> Any:
        instantiate, clock = runtime.cudaGraphInstantiate, time.perf_counter_ns
        begin = clock()
        status, executable = instantiate(graph, 0)
        samples[LaunchMeasure.INSTANTIATION] = clock() - begin
        call(lambda: (status,))
        return executable

    def _time_two_launches(self, executable: Any, samples: Samples) -> None:
        """Time the first and the next launch, each into an empty stream.

        As in the sample, nothing else runs between clock readings. Python adds about 0.4 µs, and
        more after the first launch of a large graph
        (evaluation/reports/2026-11-21-launch-costs.md).
        """
        launch, wait = runtime.cudaGraphLaunch, runtime.cudaStreamSynchronize
        stream, clock = self._streams[0], time.perf_counter_ns
        begin = clock()
        launch_status = launch(executable, stream)
        returned = clock()
        wait_status = wait(stream)
        finished = clock()
        restart = clock()
        relaunch_status = launch(executable, stream)
        second_return = clock()
        rewait_status = wait(stream)
        second_finish = clock()
        for status in (launch_status, wait_status, relaunch_status, rewait_status):
            call(lambda status=status: status)
        samples[LaunchMeasure.FIRST_LAUNCH_CPU] = returned - begin
        samples[LaunchMeasure.FIRST_LAUNCH] = finished - begin
        samples[LaunchMeasure.REPEAT_LAUNCH_CPU] = second_return - restart
        samples[LaunchMeasure.REPEAT_LAUNCH] = second_finish - restart

    def _replace_executable(self, graph: Any, executable: Any) -> Any:
        call(runtime.cudaGraphExecDestroy, executable)
        return call(runtime.cudaGraphInstantiate, graph, 0)

    def _time_queued(
        self, work: Callable[[], object], stream: Any, samples: Samples, measure: LaunchMeasure
    ) -> int:
        """Measure ``work`` on the GPU behind a waiting kernel; return its CPU time in ns."""
        self._latch.reset()
        arguments = self._latch.arguments
        call(driver.cuLaunchKernel, self._hold, 1, 1, 1, 1, 1, 1, 0, int(stream), arguments, 0)
        call(runtime.cudaEventRecord, self._begin, stream)
        begin = time.perf_counter_ns()
        work()
        cpu_ns = time.perf_counter_ns() - begin
        call(runtime.cudaEventRecord, self._end, stream)
        self._latch.release()
        call(runtime.cudaStreamSynchronize, stream)
        if not self._latch.gave_up:
            elapsed_ms = call(runtime.cudaEventElapsedTime, self._begin, self._end)
            samples[measure] = round(elapsed_ms * 1e6)
        return cpu_ns

    def _time_upload(self, executable: Any, samples: Samples) -> None:
        stream = self._streams[1]
        samples[LaunchMeasure.UPLOAD_CPU] = self._time_queued(
            lambda: call(runtime.cudaGraphUpload, executable, stream),
            stream,
            samples,
            LaunchMeasure.UPLOAD_DEVICE,
        )

    def run_stream_trial(self, topology: Topology) -> Samples:
        """Run one trial of the same work launched call by call."""
        samples: Samples = {}
        main = self._streams[0]
        begin = time.perf_counter_ns()
        self._issue_work(topology)
        returned = time.perf_counter_ns()
        call(runtime.cudaStreamSynchronize, main)
        samples[LaunchMeasure.STREAM_CPU] = returned - begin
        samples[LaunchMeasure.STREAM] = time.perf_counter_ns() - begin
        if topology.nodes <= MAX_QUEUED:
            self._time_queued(
                lambda: self._issue_work(topology), main, samples, LaunchMeasure.STREAM_DEVICE
            )
        return samples

    def _issue_work(self, topology: Topology) -> None:
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
            if index == 0 and topology.middle_node is not None:
                for _ in range(count // 2):
                    launch(empty, 1, 1, 1, 1, 1, 1, 0, handle, 0, 0)
                self._issue_other_node(topology.middle_node)
                count -= count // 2 + 1
            for _ in range(count):
                launch(empty, 1, 1, 1, 1, 1, 1, 0, handle, 0, 0)
        for stream in streams[1 : topology.width]:
            call(runtime.cudaEventRecord, self._fork, stream)
            call(runtime.cudaStreamWaitEvent, streams[0], self._fork, 0)

    def _issue_other_node(self, kind: str) -> None:
        stream, (target, source) = self._streams[0], self._memory
        match kind:
            case "Memcpy":
                direction = runtime.cudaMemcpyKind.cudaMemcpyDeviceToDevice
                call(runtime.cudaMemcpyAsync, target, source, _BYTES, direction, stream)
            case "Memset":
                call(runtime.cudaMemsetAsync, target, 0, _BYTES, stream)
            case "Host":
                self._issue_host_function(stream)

    def _issue_host_function(self, stream: Any) -> None:
        function = driver.CUhostFn(_NOOP_FUNCTION)
        status, graph, before = self._read_capture_info(stream)
        if status == 0:
            call(driver.cuLaunchHostFunc, int(stream), function, 0)
            return
        # cuda-bindings frees the function of cuLaunchHostFunc after the first call, but a replay
        # calls it again. A node added to the graph is not wrapped.
        params = driver.CUDA_HOST_NODE_PARAMS()
        params.fn = function
        node = call(driver.cuGraphAddHostNode, graph, before, len(before), params)
        flags = driver.CUstreamUpdateCaptureDependencies_flags
        replace = int(flags.CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        update = driver.cuStreamUpdateCaptureDependencies
        call(update, int(stream), [node], None, 1, replace)

    def _read_capture_info(self, stream: Any) -> tuple[int, Any, list[Any]]:
        """Return the capture status (0: none), the graph, and the next node's dependencies."""
        info = call(driver.cuStreamGetCaptureInfo, int(stream))
        return int(info[0]), info[2], list(info[3] or ())
