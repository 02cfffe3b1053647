"""Describe the machine without naming host or user."""

from __future__ import annotations

import os
import platform

# Here and not on demand: an import at the end of a program ended by SIGINT changes its exit code,
# because named tuples evaluate text, which resets Python's note of the interrupt.
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch
from cuda.bindings import driver

from collectors.driver.nvml import read_driver_version
from collectors.driver.topology import call
from graphviz_dash.errors import MissingRequirementError
from graphviz_dash.model.gpu import Gpu
from graphviz_dash.model.run import Environment


def read_environment() -> Environment:
    """Read the current CUDA device, the software and the CPU.

    Raises:
        MissingRequirementError: torch finds no CUDA device.
    """
    if not torch.cuda.is_available():
        built = torch.version.cuda
        raise MissingRequirementError(
            "Collecting needs a CUDA GPU, but torch finds none: "
            + (
                f"torch {torch.__version__} is built for CUDA {built}; check `nvidia-smi`."
                if built
                else f"torch {torch.__version__} is built without CUDA; install a CUDA build."
            )
        )
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return Environment(
        gpu=Gpu(
            name=properties.name,
            compute_capability=(properties.major, properties.minor),
            memory_bytes=properties.total_memory,
            multiprocessors=properties.multi_processor_count,
        ),
        gpu_count=torch.cuda.device_count(),
        driver=read_driver_version(),
        cuda_driver=_format_version(call(driver.cuDriverGetVersion)),
        cuda_runtime=torch.version.cuda,
        cupti=_find_package_version(
            "nvidia-cuda-cupti", "nvidia-cuda-cupti-cu13", "nvidia-cuda-cupti-cu12"
        ),
        torch=str(torch.__version__),
        cuda_bindings=_find_package_version("cuda-bindings") or "unknown",
        python=platform.python_version(),
        cpu=_read_cpu_name(),
        cpu_count=os.cpu_count() or 1,
        os=f"{platform.system()} {platform.release()}",
        nccl=_get_nccl_version(),
        mps=_is_mps_enabled(),
    )


def _is_mps_enabled() -> bool | None:
    """Check for the Multi-Process Service; None if the bindings cannot query it."""
    attribute = getattr(driver.CUdevice_attribute, "CU_DEVICE_ATTRIBUTE_MPS_ENABLED", None)
    if attribute is None:
        return None
    return bool(call(driver.cuDeviceGetAttribute, attribute, torch.cuda.current_device()))


def _get_nccl_version() -> str | None:
    if not torch.distributed.is_available() or not torch.distributed.is_nccl_available():
        return None
    return ".".join(map(str, torch.cuda.nccl.version()))


def _format_version(encoded: int) -> str:
    """Format 13000 as 13.0."""
    return f"{encoded // 1000}.{encoded % 1000 // 10}"


def _find_package_version(*names: str) -> str | None:
    for name in names:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None


def _read_cpu_name() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line]
    return names[0] if names else platform.machine()
