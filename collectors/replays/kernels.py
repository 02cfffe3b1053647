"""Kernels that the checks put into a graph: hashes of tensors and progress marks.

NVRTC, which torch brings, compiles them once per process for the current device.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from cuda.bindings import driver, nvrtc

from collectors.driver.calls import DriverError, call
from collectors.driver.capture_mode import relax_capture_mode

MAX_DIMENSIONS: Final = 8
"""Most dimensions of a strided tensor that the hash kernel reads."""

SLOT_WORDS: Final = 4
"""64-bit words of a slot: hash, sum of absolute values, signed sum, values that are not finite."""

_BLOCK: Final = 256
_MAX_GRID: Final = 264

SOURCE: Final = r"""
typedef unsigned long long u64;
typedef unsigned int u32;
struct Shape { u64 size[8]; long long stride[8]; };

__device__ u64 mix(u64 x) {
  x ^= x >> 30; x *= 0xBF58476D1CE4E5B9ull;
  x ^= x >> 27; x *= 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

__device__ float decode_half(u32 h) {
  u32 sign = (h >> 15) & 1, exponent = (h >> 10) & 31, fraction = h & 1023;
  float value;
  if (exponent == 0) value = fraction * 5.9604644775390625e-8f;
  else if (exponent == 31) value = __int_as_float(fraction ? 0x7fc00000 : 0x7f800000);
  else value = __int_as_float(((exponent + 112) << 23) | (fraction << 13));
  return sign ? -value : value;
}

// kind: 0 bits, 1 float16, 2 bfloat16, 3 float32, 4 float64, 5 signed integer
extern "C" __global__ void hash(const unsigned char* data, u64 count, u32 item, u32 kind,
                                u32 dimensions, Shape shape, u64* slot) {
  u64 hash = 0, bad = 0;
  double total = 0, signed_total = 0;
  u64 step = (u64)gridDim.x * blockDim.x;
  for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < count; i += step) {
    long long offset = 0;
    if (dimensions == 0) {
      offset = (long long)i;
    } else {
      u64 rest = i;
      for (int d = (int)dimensions - 1; d >= 0; --d) {
        offset += (long long)(rest % shape.size[d]) * shape.stride[d];
        rest /= shape.size[d];
      }
    }
    const unsigned char* at = data + offset * (long long)item;
    u64 low = 0, high = 0;
    double value = 0;
    bool numeric = kind != 0;
    if (item == 1) { low = *at; value = (double)*(const signed char*)at; }
    else if (item == 2) {
      low = *(const unsigned short*)at;
      value = kind == 1 ? decode_half((u32)low)
            : kind == 2 ? (double)__int_as_float((u32)low << 16) : (double)*(const short*)at;
    } else if (item == 4) {
      low = *(const u32*)at;
      value = kind == 3 ? (double)__int_as_float((u32)low) : (double)*(const int*)at;
    } else if (item == 8) {
      low = *(const u64*)at;
      value = kind == 4 ? __longlong_as_double((long long)low) : (double)(long long)low;
    } else if (item == 16) {
      low = *(const u64*)at; high = *(const u64*)(at + 8);
    } else {
      for (u32 b = 0; b < item; ++b) low = low * 1099511628211ull + at[b];
    }
    if (numeric && value != value) low = 0x7ff8dead;  // one hash for all NaN payloads
    u64 salt = mix(0x9E3779B97F4A7C15ull * (i + 1));
    hash += mix(low ^ salt) + (high ? mix(high + salt) : 0);
    if (numeric) {
      double size = fabs(value);
      if (size <= 1.7976931348623157e308) {
        total += size;
        signed_total += (salt >> 63) ? value : -value;
      } else {
        bad += 1;
      }
    }
  }
  for (int o = 16; o; o >>= 1) {
    hash += __shfl_down_sync(~0u, hash, o);
    bad += __shfl_down_sync(~0u, bad, o);
    total += __shfl_down_sync(~0u, total, o);
    signed_total += __shfl_down_sync(~0u, signed_total, o);
  }
  if ((threadIdx.x & 31) == 0) {
    if (blockIdx.x == 0 && threadIdx.x == 0) hash += 1;  // a slot that was written is not empty
    atomicAdd(slot, hash);
    if (total != 0) {
      atomicAdd((double*)(slot + 1), total);
      atomicAdd((double*)(slot + 2), signed_total);
    }
    if (bad) atomicAdd(slot + 3, bad);
  }
}

// One word on the device counts the replays of a graph; the host's copy shows how far it is.
extern "C" __global__ void begin(u32* count, volatile u32* host) {
  u32 value = *count + 1;
  *count = value;
  *host = value;
  __threadfence_system();
}

extern "C" __global__ void mark(const u32* count, volatile u32* host) {
  *host = *count;
  __threadfence_system();
}
"""


class HashShape(ctypes.Structure):
    """Sizes and strides of a tensor, in elements."""

    _fields_ = [
        ("size", ctypes.c_uint64 * MAX_DIMENSIONS),
        ("stride", ctypes.c_int64 * MAX_DIMENSIONS),
    ]


def compile_source(source: str, architecture: str) -> bytes:
    """Compile CUDA C++ to a CUBIN.

    Raises:
        DriverError: NVRTC refused the source.
    """
    program = call(nvrtc.nvrtcCreateProgram, source.encode(), b"replays.cu", 0, [], [])
    options = [f"--gpu-architecture={architecture}".encode()]
    call(nvrtc.nvrtcCompileProgram, program, len(options), options)
    binary = b" " * call(nvrtc.nvrtcGetCUBINSize, program)
    call(nvrtc.nvrtcGetCUBIN, program, binary)
    return binary


class CheckKernels:
    """The kernels, loaded into the current context."""

    def __init__(self) -> None:
        device = call(driver.cuCtxGetDevice)
        attribute = driver.CUdevice_attribute
        major, minor = (
            call(driver.cuDeviceGetAttribute, kind, device)
            for kind in (
                attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            )
        )
        with relax_capture_mode():
            self._module = call(
                driver.cuModuleLoadData, compile_source(SOURCE, f"sm_{major}{minor}")
            )
            try:
                self._functions = {
                    name: call(driver.cuModuleGetFunction, self._module, name.encode())
                    for name in ("hash", "begin", "mark")
                }
                # Lazy loading inside a capture would be refused.
                for function in self._functions.values():
                    call(driver.cuFuncLoad, function)
            except DriverError:
                driver.cuModuleUnload(self._module)
                raise

    def launch_hash(
        self,
        address: int,
        sizes: Sequence[int],
        strides: Sequence[int] | None,
        item: int,
        kind: int,
        slot: int,
        stream: int,
    ) -> None:
        """Launch a hash of a tensor into the slot at an address.

        Args:
            strides: In elements, or None for a contiguous tensor.
            item: Bytes of an element.
            kind: Number format, see the source.
        """
        count = 1
        for size in sizes:
            count *= size
        shape = HashShape()
        dimensions = 0
        if strides is not None:
            dimensions = len(sizes)
            shape.size[:dimensions] = list(sizes)
            shape.stride[:dimensions] = list(strides)
        arguments = (
            ctypes.c_void_p(address),
            ctypes.c_uint64(count),
            ctypes.c_uint32(item),
            ctypes.c_uint32(kind),
            ctypes.c_uint32(dimensions),
            shape,
            ctypes.c_void_p(slot),
        )
        pointers = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        grid = max(1, min(_MAX_GRID, -(-count // (4 * _BLOCK))))
        call(
            driver.cuLaunchKernel,
            self._functions["hash"],
            *(grid, 1, 1, _BLOCK, 1, 1, 0),
            stream,
            ctypes.addressof(pointers),
            0,
        )

    def add_node(self, graph: Any, before: Sequence[Any], name: str, *addresses: int) -> Any:
        """Add a kernel of one thread that receives addresses, behind the nodes ``before``."""
        params = driver.CUDA_KERNEL_NODE_PARAMS()
        params.func = self._functions[name]
        params.gridDimX = params.gridDimY = params.gridDimZ = 1
        params.blockDimX = params.blockDimY = params.blockDimZ = 1
        params.kernelParams = (addresses, (ctypes.c_void_p,) * len(addresses))
        return call(driver.cuGraphAddKernelNode, graph, list(before), len(before), params)


@cache
def load_kernels(_context: int) -> CheckKernels:
    """Return the kernels of a context, compiled at its first use."""
    return CheckKernels()


def get_kernels() -> CheckKernels:
    """Return the kernels of the current context."""
    return load_kernels(int(call(driver.cuCtxGetCurrent)))
