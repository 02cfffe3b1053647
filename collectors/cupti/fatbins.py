"""Read the code of kernels from host libraries, without a GPU.

nvcc and NVIDIA's libraries store code in the section ``.nv_fatbin``: containers with one entry per
architecture and kind, uncompressed or compressed with Zstandard (CUDA 13) or LZ4, which is not
read. NVIDIA does not document the format. The constants come from files of CUDA 13.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from typing import Final

from collectors.cupti.elf import Content, list_sections

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_SECTION: Final = ".nv_fatbin"
_MAGIC: Final = b"\x50\xed\x55\xba"
_CONTAINER: Final = struct.Struct("<4sHHQ")
_ENTRY: Final = struct.Struct("<HHIQI8xI8xQ8xQ")
"""Kind, version, bytes of the header, bytes of the padded payload, of the payload, architecture,
flags, bytes without compression."""
_CUBIN: Final = 2
_COMPRESSION_FLAGS: Final = 0xF000
_ZSTANDARD: Final = 0x8000
_MAX_CUBIN_BYTES: Final = 1 << 30


def list_cubins(library: Content, capability: tuple[int, int]) -> Iterator[bytes]:
    """List the cubins of a library that a GPU can run, the newest of each container.

    Damaged and unknown entries are skipped.
    """
    for section in list_sections(library):
        if section.name == _SECTION:
            yield from _list_cubins(library, section.begin, section.end, capability)


def _list_cubins(
    library: Content, begin: int, end: int, capability: tuple[int, int]
) -> Iterator[bytes]:
    while (begin := library.find(_MAGIC, begin, end)) >= 0:
        if begin + _CONTAINER.size > end:
            return
        _, _, header_bytes, content_bytes = _CONTAINER.unpack_from(library, begin)
        first = begin + header_bytes
        last = min(end, first + content_bytes)
        entries = list(_list_entries(library, first, last, capability))
        newest = max((arch for arch, _, _ in entries), default=0)
        for arch, payload, flags in entries:
            if arch == newest and (cubin := _unpack(library[slice(*payload)], flags)):
                yield cubin
        begin = max(last, begin + len(_MAGIC))


def _list_entries(
    library: Content, begin: int, end: int, capability: tuple[int, int]
) -> Iterator[tuple[int, tuple[int, int], int]]:
    """Return architecture, place and flags of the cubins that the GPU can run."""
    major, minor = capability
    while begin + _ENTRY.size <= end:
        entry = _ENTRY.unpack_from(library, begin)
        kind, _, header_bytes, padded_bytes, stored_bytes, arch, flags, _ = entry
        payload = begin + header_bytes
        # An uncompressed payload has no other size.
        size = stored_bytes if flags & _COMPRESSION_FLAGS else padded_bytes
        if kind == _CUBIN and 10 * major <= arch <= 10 * major + minor and payload + size <= end:
            yield arch, (payload, payload + size), flags
        begin = payload + max(padded_bytes, 1)


def _unpack(payload: bytes, flags: int) -> bytes | None:
    compression = flags & _COMPRESSION_FLAGS
    if not compression:
        return payload
    if compression != _ZSTANDARD:
        return None
    try:
        return zstd.ZstdDecompressor().decompress(payload, max_length=_MAX_CUBIN_BYTES)
    except zstd.ZstdError:
        return None
