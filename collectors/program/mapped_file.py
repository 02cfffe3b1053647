"""A file that is written through memory, and survives a killed process.

A write is a copy without system calls. Each system call of the writing thread releases Python's
lock and requests it again, which delays a program of many short operators, and lasts up to 0.3 ms
in a sandbox.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import resource
from pathlib import Path
from typing import Any, Final

_SMALLEST: Final = 1 << 16
_WORD: Final = 8
_ORDER: Final = "little"


class MappedFile:
    """The file at ``path``, created by the first write: its length in 8 bytes, then its content.

    One thread writes at a time. No descriptor stays open, because a program may close all.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bytes: Any = memoryview(b"")
        self._length = 0

    def append(self, content: bytes) -> None:
        """Append ``content``.

        Raises:
            OSError: The file cannot grow.
        """
        self.rewrite(content, self._length)

    def rewrite(self, content: bytes, offset: int = 0) -> None:
        """Replace the content after ``offset``. A concurrent reader may see a part of it.

        Raises:
            OSError: The file cannot grow.
        """
        end = _WORD + offset + len(content)
        if end > len(self._bytes):
            self._bytes = _map_file(self._path, end)
        self._bytes[end - len(content) : end] = content
        # Last, so that a reader finds only complete content.
        self._length = end - _WORD
        self._bytes[:_WORD] = self._length.to_bytes(_WORD, _ORDER)


def read_mapped_file(path: Path) -> bytes:
    """Return the content of the file that a :class:`MappedFile` wrote.

    Raises:
        OSError: The file cannot be read.
    """
    content = path.read_bytes()
    return content[_WORD : _WORD + int.from_bytes(content[:_WORD], _ORDER)]


def _map_file(path: Path, length: int) -> memoryview:
    """Map at least ``length`` bytes, which exist on the disk: an access without one would end the
    program. An earlier mapping remains, because it may be in use."""
    size = _find_size(path, length)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(handle, 0, size)
        address = _mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, handle, 0)
        if address in (None, _MAP_ERROR):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(path))
    finally:
        os.close(handle)
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B")


def _find_size(path: Path, length: int) -> int:
    """Return a size with room for further writes, or the limit of the process.

    Raises:
        OSError: The limit is below ``length``. Writing is not attempted: the signal sent on failure
            could end the program.
    """
    size = max(_SMALLEST, 1 << length.bit_length())
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit == resource.RLIM_INFINITY or size <= limit:
        return size
    if length > limit:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return limit


# Not the module ``mmap``, whose objects keep a descriptor.
_mmap: Final[Any] = ctypes.CDLL(None, use_errno=True).mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_MAP_ERROR: Final = ctypes.c_void_p(-1).value
