"""Environment of an imported run, from its trace."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from graphviz_dash.ingest.kineto.trace_head import TraceHead
from graphviz_dash.model.gpu import Gpu
from graphviz_dash.model.run import Environment
from graphviz_dash.model.trace import Trace
from graphviz_dash.units import pluralize

_MIN_CALENDAR_NS: Final = 1_400_000_000_000_000_000
"""Year 2014. Earlier times count from the start of a machine or program."""


def get_recording_time(trace: Trace | None) -> str | None:
    """Compute the time of recording of a trace, ISO 8601 in UTC. None if its times are not calendar
    times."""
    if trace is None or not _MIN_CALENDAR_NS <= trace.info.origin_ns < 1 << 62:
        return None
    moment = datetime.fromtimestamp(trace.info.origin_ns // 1_000_000_000, UTC)
    return moment.isoformat(timespec="seconds")


def format_job_name(world_size: int | None, gpu: str | None, recorded: str | None) -> str | None:
    """Format a name for the ranks of one job: number of ranks, GPU and day.

    Returns the GPU if the number of ranks is unknown. None if both are unknown.
    """
    device = gpu or "an unknown GPU"
    if world_size is None:
        return gpu
    return f"{pluralize(world_size, 'rank')} on {device}" + (
        f", {recorded[:10]}" if recorded else ""
    )


def find_main_device(trace: Trace | None) -> int:
    """Return the device of most of the trace's work. 0 without work."""
    if trace is None or trace.gpu.is_empty():
        return 0
    return int(trace.gpu["device"].mode()[0] or 0)


def build_environment(trace: Trace | None, head: TraceHead | None) -> Environment:
    """Build the environment: device and CUDA versions."""
    return Environment(
        gpu=_build_gpu(head, find_main_device(trace)),
        gpu_count=len(head.devices) if head and head.devices else None,
        driver=None,
        cuda_driver=_format_version(trace.info.cuda_driver_version if trace else None),
        cuda_runtime=_format_version(trace.info.cuda_runtime_version if trace else None),
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


def _build_gpu(head: TraceHead | None, index: int) -> Gpu | None:
    if head is None or not head.devices:
        return None
    device = head.devices[index if index < len(head.devices) else 0]
    facts = (device.compute_capability, device.memory_bytes, device.multiprocessors)
    if device.name and None not in facts:
        with suppress(TypeError):
            return Gpu(device.name, *facts)  # type: ignore[arg-type]
    return None


def _format_version(number: int | None) -> str | None:
    """Format cudaRuntimeGetVersion's number: 13.0 for 13000."""
    return None if number is None else f"{number // 1000}.{number % 1000 // 10}"
