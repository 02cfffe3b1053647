"""Find the instructions of programmatic launch in compiled kernels.

``griddepcontrol.wait`` compiles to ACQBULK and ``griddepcontrol.launch_dependents`` to PREEXIT, as
nvdisasm shows for compute capability 9.0 and 10.0.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import numpy as np
from msgspec import Struct

_MAGIC: Final = b"\x7fELF\x02\x01"
_MACHINE: Final = 190
"""Machine of an ELF file with code for a GPU."""
_CODE: Final = ".text."
_NO_CONTENT: Final = 8
_HEADER: Final = struct.Struct("<IIQQQQIIQQ")
_INSTRUCTION_BYTES: Final = 16
"""Since compute capability 7.0."""
_OPCODE: Final = 0xFFF
_ACQBULK: Final = 0x82E
_PREEXIT: Final = 0x82D


class LaunchControl(Struct, frozen=True):
    """Instructions of programmatic launch in a kernel."""

    waits: bool
    """It waits for the kernels before it (``griddepcontrol.wait``)."""
    triggers: bool
    """It releases the next kernels early (``griddepcontrol.launch_dependents``)."""


def find_launch_control(cubin: bytes) -> dict[str, LaunchControl]:
    """Return the launch instructions by mangled name; empty if not readable."""
    try:
        return {name: _inspect(code) for name, code in _list_functions(cubin)}
    except (struct.error, ValueError, IndexError):
        return {}


def _inspect(code: bytes) -> LaunchControl:
    words = np.frombuffer(code, "<u2", len(code) // _INSTRUCTION_BYTES * 8)
    opcodes = words[::8] & _OPCODE
    return LaunchControl(bool((opcodes == _ACQBULK).any()), bool((opcodes == _PREEXIT).any()))


def _list_functions(cubin: bytes) -> Iterator[tuple[str, bytes]]:
    if not cubin.startswith(_MAGIC) or struct.unpack_from("<H", cubin, 0x12)[0] != _MACHINE:
        return
    (start,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names_index = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [_HEADER.unpack_from(cubin, start + size * index) for index in range(count)]
    names = sections[names_index][4]
    for name_offset, kind, _, _, offset, length, *_ in sections:
        begin = names + name_offset
        name = cubin[begin : cubin.index(b"\0", begin)].decode()
        if name.startswith(_CODE) and kind != _NO_CONTENT:
            yield name.removeprefix(_CODE), cubin[offset : offset + length]
