"""Create a semaphore that CUDA can import, through the Vulkan driver.

Source: Vulkan 1.3 specification, VK_KHR_external_semaphore_fd. NVIDIA's driver library has the
entry points, so no loader or window system is needed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any, Final

_LIBRARIES: Final = ("libvulkan.so.1", "libEGL_nvidia.so.0", "libGLX_nvidia.so.0")
_EXTENSION: Final = b"VK_KHR_external_semaphore_fd"
_API_1_1: Final = (1 << 22) | (1 << 12)
_OPAQUE_FD: Final = 1
_MAX_DEVICES: Final = 64


class VulkanError(RuntimeError):
    """The Vulkan driver is missing or refused a call."""


class _ApplicationInfo(Structure):
    _fields_ = [
        ("type", c_uint32), ("next", c_void_p), ("application", c_char_p), ("version", c_uint32),
        ("engine", c_char_p), ("engine_version", c_uint32), ("api_version", c_uint32),
    ]  # fmt: skip


class _InstanceCreateInfo(Structure):
    _fields_ = [
        ("type", c_uint32), ("next", c_void_p), ("flags", c_uint32),
        ("application", POINTER(_ApplicationInfo)), ("layer_count", c_uint32),
        ("layers", c_void_p), ("extension_count", c_uint32), ("extensions", POINTER(c_char_p)),
    ]  # fmt: skip


class _QueueCreateInfo(Structure):
    _fields_ = [
        ("type", c_uint32), ("next", c_void_p), ("flags", c_uint32), ("family", c_uint32),
        ("count", c_uint32), ("priorities", POINTER(ctypes.c_float)),
    ]  # fmt: skip


class _DeviceCreateInfo(Structure):
    _fields_ = [
        ("type", c_uint32), ("next", c_void_p), ("flags", c_uint32), ("queue_count", c_uint32),
        ("queues", POINTER(_QueueCreateInfo)), ("layer_count", c_uint32), ("layers", c_void_p),
        ("extension_count", c_uint32), ("extensions", POINTER(c_char_p)), ("features", c_void_p),
    ]  # fmt: skip


class _IdProperties(Structure):
    _fields_ = [
        ("type", c_uint32), ("next", c_void_p), ("device", c_uint8 * 16), ("driver", c_uint8 * 16),
        ("luid", c_uint8 * 8), ("node_mask", c_uint32), ("luid_valid", c_uint32),
    ]  # fmt: skip


class _Properties2(Structure):
    # VkPhysicalDeviceProperties has 824 bytes; none are read.
    _fields_ = [
        ("type", c_uint32), ("next", POINTER(_IdProperties)), ("properties", c_uint64 * 128),
    ]  # fmt: skip


class _ExportInfo(Structure):
    _fields_ = [("type", c_uint32), ("next", c_void_p), ("handles", c_uint32)]


class _SemaphoreCreateInfo(Structure):
    _fields_ = [("type", c_uint32), ("next", POINTER(_ExportInfo)), ("flags", c_uint32)]


class _GetFdInfo(Structure):
    _fields_ = [
        ("type", c_uint32), ("next", c_void_p), ("semaphore", c_uint64), ("handle", c_uint32),
    ]  # fmt: skip


def create_semaphore_fd(uuid: bytes) -> int:
    """Create a binary semaphore on the GPU with the given UUID and return its file descriptor.

    The caller owns the descriptor.

    Raises:
        VulkanError: The Vulkan driver is missing, does not list this GPU, or refused a call.
    """
    entry = _load_entry_point()
    instance = _create_instance(entry)

    def of_instance(name: str, *arguments: Any) -> Any:
        return _call_function(entry, instance, name, *arguments)

    physical = _find_physical_device(of_instance, instance, uuid)
    priority = ctypes.c_float(1.0)
    queue = _QueueCreateInfo(type=2, family=0, count=1, priorities=ctypes.pointer(priority))
    extensions = (c_char_p * 1)(_EXTENSION)
    info = _DeviceCreateInfo(
        type=3, queue_count=1, queues=ctypes.pointer(queue), extension_count=1,
        extensions=extensions,
    )  # fmt: skip
    device = c_void_p()
    of_instance("vkCreateDevice", physical, byref(info), None, byref(device))
    export = _ExportInfo(type=1000077000, handles=_OPAQUE_FD)
    create = _SemaphoreCreateInfo(type=9, next=ctypes.pointer(export))
    semaphore = c_uint64()
    of_instance("vkCreateSemaphore", device, byref(create), None, byref(semaphore))
    fd_info = _GetFdInfo(type=1000079000, semaphore=semaphore.value, handle=_OPAQUE_FD)
    descriptor = c_int(-1)
    of_instance("vkGetSemaphoreFdKHR", device, byref(fd_info), byref(descriptor))
    return descriptor.value


def _load_entry_point() -> Callable[[c_void_p | None, bytes], int | None]:
    for name in _LIBRARIES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        if hasattr(library, "vk_icdNegotiateLoaderICDInterfaceVersion"):
            version = c_uint32(5)
            # The GLX library refuses without a display; the EGL library is the same driver.
            if library.vk_icdNegotiateLoaderICDInterfaceVersion(byref(version)) < 0:
                continue
            function = library.vk_icdGetInstanceProcAddr
        else:
            function = library.vkGetInstanceProcAddr
        function.restype, function.argtypes = c_void_p, [c_void_p, c_char_p]
        return function
    raise VulkanError(f"no Vulkan driver: none of {', '.join(_LIBRARIES)} is usable")


def _call_function(entry: Any, instance: c_void_p | None, name: str, *arguments: Any) -> None:
    """Call a Vulkan function whose arguments are all pointers."""
    address = entry(instance, name.encode())
    if not address:
        raise VulkanError(f"the Vulkan driver lacks {name}")
    is_void = name == "vkGetPhysicalDeviceProperties2"
    kinds = [c_void_p] * len(arguments)
    status = ctypes.CFUNCTYPE(None if is_void else c_int, *kinds)(address)(*arguments)
    if not is_void and status < 0:
        raise VulkanError(f"{name} returned {status}")


def _create_instance(entry: Any) -> c_void_p:
    application = _ApplicationInfo(type=0, api_version=_API_1_1)
    info = _InstanceCreateInfo(type=1, application=ctypes.pointer(application))
    instance = c_void_p()
    _call_function(entry, None, "vkCreateInstance", byref(info), None, byref(instance))
    return instance


def _find_physical_device(
    of_instance: Callable[..., Any], instance: c_void_p, uuid: bytes
) -> c_void_p:
    count = c_uint32(_MAX_DEVICES)
    devices = (c_void_p * _MAX_DEVICES)()
    of_instance("vkEnumeratePhysicalDevices", instance, byref(count), devices)
    for device in devices[: count.value]:
        ids = _IdProperties(type=1000071004)
        properties = _Properties2(type=1000059001, next=ctypes.pointer(ids))
        of_instance("vkGetPhysicalDeviceProperties2", c_void_p(device), byref(properties))
        if bytes(ids.device) == uuid:
            return c_void_p(device)
    raise VulkanError(f"the Vulkan driver lists {count.value} devices, none of them this GPU")
