"""The environment of an imported run: what a trace tells of its machine."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from graphviz_dash.ingest.kineto.trace_head import TraceHead
from graphviz_dash.model.run import Environment, Gpu
from graphviz_dash.model.trace import Trace
from graphviz_dash.units import counted

_FIRST_TRACES_NS: Final = 1_400_000_000_000_000_000
"""2014: times before count from the start of a machine or program, not from 1970."""


def recorded_at(trace: Trace | None) -> str | None:
    """When the trace was recorded, ISO 8601 in UTC; None where its times are of no calendar."""
    if trace is None or not _FIRST_TRACES_NS <= trace.info.origin_ns < 1 << 62:
        return None
    moment = datetime.fromtimestamp(trace.info.origin_ns // 1_000_000_000, UTC)
    return moment.isoformat(timespec="seconds")


def job_name(world_size: int | None, gpu: str | None, recorded: str | None) -> str | None:
    """What the ranks of one job have in common, for a reader: how many they are, their GPU and the
    day. Of a trace that tells no ranks its GPU; None where it does not tell that either."""
    device = gpu or "an unknown GPU"
    if world_size is None:
        return gpu
    return f"{counted(world_size, 'rank')} on {device}" + (f", {recorded[:10]}" if recorded else "")


def work_device(trace: Trace | None) -> int:
    """The device that most of the trace's work ran on; 0 without work."""
    if trace is None or trace.gpu.is_empty():
        return 0
    return int(trace.gpu["device"].mode()[0] or 0)


def traced_environment(trace: Trace | None, head: TraceHead | None) -> Environment:
    """The device and CUDA's versions, as far as ``trace`` and its ``head`` tell them."""
    return Environment(
        gpu=_gpu(head, work_device(trace)),
        gpu_count=len(head.devices) if head and head.devices else None,
        driver=None,
        cuda_driver=_version(trace.info.cuda_driver_version if trace else None),
        cuda_runtime=_version(trace.info.cuda_runtime_version if trace else None),
        cupti=None
        if trace is None or trace.info.cupti_version is None
        else str(trace.info.cupti_version),
        torch=None,
        cuda_bindings=None,
        python=None,
        cpu=None,
        cpu_count=None,
        os=None,
        nccl=head.rank.nccl if head and head.rank else None,
    )


def _gpu(head: TraceHead | None, index: int) -> Gpu | None:
    if head is None or not head.devices:
        return None
    device = head.devices[index if index < len(head.devices) else 0]
    facts = (device.compute_capability, device.memory_bytes, device.multiprocessors)
    if device.name and None not in facts:
        with suppress(TypeError):
            return Gpu(device.name, *facts)  # type: ignore[arg-type]
    return None


def _version(number: int | None) -> str | None:
    """13.0 for 13000, as cudaRuntimeGetVersion encodes it."""
    return None if number is None else f"{number // 1000}.{number % 1000 // 10}"
