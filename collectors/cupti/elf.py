"""Sections of 64-bit ELF files."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from mmap import mmap
from typing import Final, NamedTuple, TypeAlias

Content: TypeAlias = bytes | mmap

_MAGIC: Final = b"\x7fELF\x02\x01"
_NO_CONTENT: Final = 8
_HEADER: Final = struct.Struct("<IIQQQQIIQQ")


class Section(NamedTuple):
    """A section with content."""

    name: str
    begin: int
    """Offset in the file."""
    end: int


def read_machine(content: Content) -> int | None:
    """Return the number of the machine that runs the code; None for other files."""
    if content[: len(_MAGIC)] != _MAGIC:
        return None
    (machine,) = struct.unpack_from("<H", content, 0x12)
    return int(machine)


def list_sections(content: Content) -> Iterator[Section]:
    """List the sections with content, in order.

    Raises:
        struct.error, ValueError: The file is damaged.
    """
    size_bytes = len(content)
    (start,) = struct.unpack_from("<Q", content, 0x28)
    size, count, names_index = struct.unpack_from("<HHH", content, 0x3A)
    if names_index >= count or start + size * count > size_bytes:
        raise ValueError("sections beyond the end")
    headers = [_HEADER.unpack_from(content, start + size * index) for index in range(count)]
    names = headers[names_index][4]
    for name_offset, kind, _, _, offset, length, *_ in headers:
        if kind == _NO_CONTENT:
            continue
        begin = names + name_offset
        if max(begin, offset + length) > size_bytes:
            raise ValueError("a section beyond the end")
        end = content.find(b"\0", begin)
        if end < 0:
            raise ValueError("a name without an end")
        yield Section(content[begin:end].decode(), offset, offset + length)
