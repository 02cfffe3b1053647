"""CUDA kernels that reach the limits of a GPU, compiled at run time."""

from __future__ import annotations

import ctypes
from typing import Any, Final

import torch
from cuda.bindings import driver, nvrtc

from collectors.driver.calls import call

PREFIX: Final = "gvd_ceiling_"

THREADS: Final = 256
BYTES_PER_THREAD: Final = 64
"""Bytes read or written per thread of a memory kernel."""

FMA_STEPS: Final = 4096
FMA_CHAINS: Final = 8
"""Multiply-adds of a thread: FMA_STEPS in each of FMA_CHAINS independent chains."""

_SOURCE: Final = r"""
extern "C" __global__ void gvd_ceiling_empty() {}

extern "C" __global__ void gvd_ceiling_copy(const uint4 *from, uint4 *to) {
    size_t first = (size_t)blockIdx.x * (4 * THREADS) + threadIdx.x;
    uint4 values[4];
    #pragma unroll
    for (int i = 0; i < 4; i++) values[i] = from[first + i * THREADS];
    #pragma unroll
    for (int i = 0; i < 4; i++) to[first + i * THREADS] = values[i];
}

extern "C" __global__ void gvd_ceiling_read(const uint4 *from, unsigned *to) {
    size_t first = (size_t)blockIdx.x * (4 * THREADS) + threadIdx.x;
    uint4 values[4];
    #pragma unroll
    for (int i = 0; i < 4; i++) values[i] = from[first + i * THREADS];
    unsigned mixed = 0;
    #pragma unroll
    for (int i = 0; i < 4; i++) mixed |= values[i].x & values[i].y & values[i].z & values[i].w;
    // The buffer holds zeros, so nothing is written, but the compiler cannot know.
    if (mixed == 0x12345678u) *to = mixed;
}

extern "C" __global__ void gvd_ceiling_write(uint4 *to) {
    size_t first = (size_t)blockIdx.x * (4 * THREADS) + threadIdx.x;
    #pragma unroll
    for (int i = 0; i < 4; i++) to[first + i * THREADS] = make_uint4(0, 0, 0, 0);
}

extern "C" __global__ void gvd_ceiling_fma_fp32(float *to, float a, float b) {
    float x[CHAINS];
    #pragma unroll
    for (int i = 0; i < CHAINS; i++) x[i] = threadIdx.x + i;
    for (int step = 0; step < STEPS; step++) {
        #pragma unroll
        for (int i = 0; i < CHAINS; i++) x[i] = fmaf(x[i], a, b);
    }
    float sum = 0;
    #pragma unroll
    for (int i = 0; i < CHAINS; i++) sum += x[i];
    if (sum == 1234.5f) *to = sum;
}

extern "C" __global__ void gvd_ceiling_fma_fp64(double *to, double a, double b) {
    double x[CHAINS];
    #pragma unroll
    for (int i = 0; i < CHAINS; i++) x[i] = threadIdx.x + i;
    for (int step = 0; step < STEPS; step++) {
        #pragma unroll
        for (int i = 0; i < CHAINS; i++) x[i] = fma(x[i], a, b);
    }
    double sum = 0;
    #pragma unroll
    for (int i = 0; i < CHAINS; i++) sum += x[i];
    if (sum == 1234.5) *to = sum;
}

// Two 16-bit values per register.
extern "C" __global__ void gvd_ceiling_fma_fp16(unsigned *to, unsigned a, unsigned b) {
    unsigned x[CHAINS];
    #pragma unroll
    for (int i = 0; i < CHAINS; i++) x[i] = threadIdx.x + i;
    for (int step = 0; step < STEPS; step++) {
        #pragma unroll
        for (int i = 0; i < CHAINS; i++)
            asm volatile("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(x[i]) : "r"(a), "r"(b));
    }
    unsigned mixed = 0;
    #pragma unroll
    for (int i = 0; i < CHAINS; i++) mixed ^= x[i];
    if (mixed == 0x12345678u) *to = mixed;
}
"""


class CeilingKernels:
    """The kernels, launched on torch's current stream."""

    def __init__(self) -> None:
        # torch creates the context with the first tensor.
        torch.zeros(1, device="cuda")
        major, minor = torch.cuda.get_device_capability()
        options = [
            f"--gpu-architecture=sm_{major}{minor}".encode(),
            f"-DTHREADS={THREADS}".encode(),
            f"-DSTEPS={FMA_STEPS}".encode(),
            f"-DCHAINS={FMA_CHAINS}".encode(),
        ]
        program = call(nvrtc.nvrtcCreateProgram, _SOURCE.encode(), b"ceilings.cu", 0, [], [])
        call(nvrtc.nvrtcCompileProgram, program, len(options), options)
        code = b" " * call(nvrtc.nvrtcGetCUBINSize, program)
        call(nvrtc.nvrtcGetCUBIN, program, code)
        self._module = call(driver.cuModuleLoadData, code)
        self._functions: dict[str, Any] = {}

    def launch(self, name: str, blocks: int, *arguments: tuple[Any, Any]) -> None:
        """Launch the kernel ``name`` (without prefix) with (value, ctypes type) arguments."""
        if name not in self._functions:
            self._functions[name] = call(
                driver.cuModuleGetFunction, self._module, f"{PREFIX}{name}".encode()
            )
        values = tuple(value for value, _ in arguments)
        types = tuple(kind for _, kind in arguments)
        call(
            driver.cuLaunchKernel,
            self._functions[name],
            *(blocks, 1, 1),
            *(THREADS, 1, 1),
            0,
            torch.cuda.current_stream().cuda_stream,
            (values, types),
            0,
        )

    def copy(self, source: int, target: int, size: int) -> None:
        """Copy ``size`` bytes, a multiple of a block's bytes."""
        self.launch("copy", _count_blocks(size), _build_pointer(source), _build_pointer(target))

    def read(self, source: int, target: int, size: int) -> None:
        """Read ``size`` bytes of zeros."""
        self.launch("read", _count_blocks(size), _build_pointer(source), _build_pointer(target))

    def write(self, target: int, size: int) -> None:
        """Write ``size`` bytes of zeros."""
        self.launch("write", _count_blocks(size), _build_pointer(target))

    def multiply_add(self, pipe: str, target: int, blocks: int) -> None:
        """Run the multiply-adds of ``pipe``: fp32, fp64 or fp16."""
        kind = {"fp32": ctypes.c_float, "fp64": ctypes.c_double, "fp16": ctypes.c_uint}[pipe]
        # 16-bit: 1.0 and 0.0 twice.
        factor, offset = (0x3C003C00, 0) if pipe == "fp16" else (0.999, 0.5)
        self.launch(f"fma_{pipe}", blocks, _build_pointer(target), (factor, kind), (offset, kind))


def _build_pointer(address: int) -> tuple[int, Any]:
    return address, ctypes.c_void_p


def _count_blocks(size: int) -> int:
    return max(1, size // (THREADS * BYTES_PER_THREAD))
