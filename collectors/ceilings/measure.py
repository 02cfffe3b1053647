"""Process that measures: ``python -m collectors.ceilings.measure OUT.json``.

Times come from CUPTI, like the node times compared with them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import torch
from torch.profiler import ProfilerActivity, profile

from collectors.ceilings.kernels import (
    BYTES_PER_THREAD,
    FMA_CHAINS,
    FMA_STEPS,
    PREFIX,
    THREADS,
    CeilingKernels,
)
from collectors.collection.environment import read_environment
from collectors.process.lifeline import exit_with_parent
from graphviz_dash import __version__
from graphviz_dash.errors import GraphvizDashError
from graphviz_dash.model.ceilings import (
    CEILINGS_FORMAT,
    CEILINGS_VERSION,
    ArithmeticTime,
    Ceilings,
    MemoryTime,
    Pipe,
    Traffic,
)

_KIB: Final = 1 << 10
_MIB: Final = 1 << 20
_BLOCK: Final = THREADS * BYTES_PER_THREAD
_REPEATS: Final = 7
_EMPTY_LAUNCHES: Final = 50
_WARM_UP: Final = 3
_REST_S: Final = 0.02
"""Idle time before each matrix product, for the clock of a short kernel in a step."""

CACHED_SIZES: Final = (16 * _KIB, 64 * _KIB, 256 * _KIB, 1 * _MIB, 2 * _MIB, 4 * _MIB, 8 * _MIB)
"""Bytes per side of kernels whose data stays in L2."""
UNCACHED_SIZES: Final = (
    *(16 * _KIB, 64 * _KIB, 256 * _KIB, 1 * _MIB, 2 * _MIB, 4 * _MIB),
    *(8 * _MIB, 16 * _MIB, 32 * _MIB, 64 * _MIB, 128 * _MIB, 256 * _MIB),
)
"""Bytes per side of kernels whose data comes from device memory."""
MATRIX_SIZES: Final = (2048, 4096, 8192)
_ARENA_BYTES: Final = 1 << 30


class _Arena:
    """Device memory used in turn, so that reused parts have left L2."""

    def __init__(self, size: int) -> None:
        self._memory = torch.zeros(size, dtype=torch.uint8, device="cuda")
        self._size, self._next = size, 0

    def take(self, size: int) -> int:
        if self._next + size > self._size:
            self._next = 0
        address = self._memory.data_ptr() + self._next
        self._next += size
        return address


def measure() -> Ceilings:
    """Measure the current device. Lasts a few seconds.

    Raises:
        MissingRequirementError: torch finds no CUDA device.
        GraphvizDashError: The profiler reported an unexpected number of kernels.
    """
    environment = read_environment()
    if environment.gpu is None:
        raise GraphvizDashError("torch does not describe the device")
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    with torch.no_grad():
        memory, empty, vector = _measure_own_kernels(properties.multi_processor_count)
        matrix = _measure_matrix_products()
    return Ceilings(
        format=CEILINGS_FORMAT,
        version=CEILINGS_VERSION,
        tool_version=__version__,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        gpu=environment.gpu,
        driver=environment.driver,
        torch=environment.torch,
        l2_bytes=int(properties.L2_cache_size),
        empty_kernel_ns=empty,
        memory=memory,
        arithmetic=(*matrix, *vector),
    )


def _measure_own_kernels(
    multiprocessors: int,
) -> tuple[tuple[MemoryTime, ...], tuple[int, ...], tuple[ArithmeticTime, ...]]:
    kernels = CeilingKernels()
    free, _ = torch.cuda.mem_get_info()
    arena = _Arena(max(1, min(_ARENA_BYTES, free // 2) // _MIB) * _MIB)
    scratch = torch.zeros(_BLOCK, dtype=torch.uint8, device="cuda").data_ptr()
    runs: list[tuple[tuple[Any, ...], Callable[[], object]]] = []
    runs += [(("empty",), lambda: kernels.launch("empty", 1))] * _EMPTY_LAUNCHES
    for l2_hit, sizes in ((True, CACHED_SIZES), (False, UNCACHED_SIZES)):
        for size in sizes:
            runs += _plan_memory(kernels, arena, scratch, size, l2_hit=l2_hit)
    blocks = multiprocessors * 8
    for pipe in ("fp32", "fp64", "fp16"):
        work = partial(kernels.multiply_add, pipe, scratch, blocks)
        runs += [(("vector", pipe), work)] * _REPEATS
    for _, launch in runs:
        launch()
    durations = _trace([launch for _, launch in runs], lambda name: name.startswith(PREFIX))
    series: dict[tuple[Any, ...], list[int]] = {}
    for (key, _), duration in zip(runs, durations, strict=True):
        series.setdefault(key, []).append(duration)
    memory = tuple(
        MemoryTime(Traffic(key[1]), key[2], key[3], tuple(values))
        for key, values in series.items()
        if key[0] == "memory"
    )
    per_thread = 2 * FMA_STEPS * FMA_CHAINS
    vector = tuple(
        ArithmeticTime(
            Pipe(key[1]),
            False,
            blocks * THREADS * per_thread * (2 if key[1] == "fp16" else 1),
            tuple(values),
        )
        for key, values in series.items()
        if key[0] == "vector"
    )
    return memory, tuple(series[("empty",)]), vector


def _plan_memory(
    kernels: CeilingKernels, arena: _Arena, scratch: int, size: int, *, l2_hit: bool
) -> list[tuple[tuple[Any, ...], Callable[[], object]]]:
    """Plan the launches for one size; cached ones reuse the memory."""
    source, target = arena.take(size), arena.take(size)

    def choose(address: int) -> int:
        return address if l2_hit else arena.take(size)

    launches = {
        Traffic.COPY: (2 * size, lambda: kernels.copy(choose(source), choose(target), size)),
        Traffic.READ: (size, lambda: kernels.read(choose(source), scratch, size)),
        Traffic.WRITE: (size, lambda: kernels.write(choose(target), size)),
    }
    return [
        (("memory" if number >= _WARM_UP else "discarded", traffic.value, l2_hit, total), launch)
        for traffic, (total, launch) in launches.items()
        for number in range(_WARM_UP + _REPEATS)
    ]


def _measure_matrix_products() -> tuple[ArithmeticTime, ...]:
    results = []
    for pipe in Pipe:
        for size in MATRIX_SIZES:
            # The GPU or this torch may lack the data type.
            with suppress(RuntimeError, AttributeError, TypeError, NotImplementedError):
                product = _prepare_product(pipe, size)
                for _ in range(_WARM_UP):
                    product()
                repeats = _REPEATS if pipe is not Pipe.FP64 else 3
                durations = _trace([product] * repeats, lambda _: True, rest_s=_REST_S)
                results.append(ArithmeticTime(pipe, True, 2 * size**3, tuple(durations)))
    return tuple(results)


def _prepare_product(pipe: Pipe, size: int) -> Callable[[], object]:
    dtype = {
        Pipe.FP64: torch.float64,
        Pipe.FP32: torch.float32,
        Pipe.TF32: torch.float32,
        Pipe.BF16: torch.bfloat16,
        Pipe.FP16: torch.float16,
        Pipe.FP8: torch.bfloat16,
    }[pipe]
    left, right = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
    if pipe is Pipe.FP8:
        scale = torch.ones((), device="cuda")
        left_fp8 = left.to(torch.float8_e4m3fn)
        right_fp8 = right.to(torch.float8_e4m3fn).t()
        return lambda: torch._scaled_mm(
            left_fp8, right_fp8, scale, scale, out_dtype=torch.bfloat16, use_fast_accum=True
        )
    result = torch.empty(size, size, device="cuda", dtype=dtype)

    def multiply() -> object:
        torch.backends.cuda.matmul.allow_tf32 = pipe is Pipe.TF32
        return torch.mm(left, right, out=result)

    return multiply


def _trace(
    launches: list[Callable[[], object]], selects: Callable[[str], bool], rest_s: float = 0.0
) -> list[int]:
    """Return the duration of each launch in ns, summed over its kernels.

    Raises:
        GraphvizDashError: The number of kernels is not a multiple of the number of launches.
    """
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for launch in launches:
            launch()
            if rest_s:
                torch.cuda.synchronize()
                time.sleep(rest_s)
        torch.cuda.synchronize()
    events = sorted(
        (event.start_ns(), event.duration_ns())
        for event in profiler.profiler.kineto_results.events()
        if event.device_type() == torch.autograd.DeviceType.CUDA and selects(event.name())
    )
    per_launch, remainder = divmod(len(events), len(launches))
    if not per_launch or remainder:
        raise GraphvizDashError(
            f"The profiler reported {len(events)} kernels of {len(launches)} launches."
        )
    return [
        sum(duration for _, duration in events[first : first + per_launch])
        for first in range(0, len(events), per_launch)
    ]


def main(arguments: list[str]) -> int:
    """Measure and write the result to the given file."""
    exit_with_parent()
    try:
        content = msgspec.json.encode(measure())
    except (GraphvizDashError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    Path(arguments[0]).write_bytes(content)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
