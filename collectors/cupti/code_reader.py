"""Find the launch control of kernels in the files of a process.

Nothing is loaded and no GPU is needed. A recorded program only lists its files: a callback of CUPTI
would wait for Python's lock while the driver holds its own.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Set
from contextlib import suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Final

from collectors.cupti.code_files import CodeFiles
from collectors.cupti.cubin import LaunchControl, find_launch_control
from collectors.cupti.elf import read_machine

_HOSTS: Final = (62, 183)
"""Machines of ELF files: x86-64 and AArch64."""
_CUBIN: Final = ".cubin"


def read_launch_control(
    files: CodeFiles, names: Set[str], capability: tuple[int, int]
) -> dict[str, LaunchControl | None]:
    """Return the launch control of kernels by mangled name, without those that are not found.

    None for a name whose code differs between files. Files that are unreadable are skipped.
    """
    controls: dict[str, LaunchControl | None] = {}
    for cubin in _list_all_cubins(files, names, capability):
        for name, control in find_launch_control(cubin).items():
            if name in names and controls.setdefault(name, control) != control:
                controls[name] = None
    return controls


def _list_all_cubins(
    files: CodeFiles, names: Set[str], capability: tuple[int, int]
) -> Iterator[bytes]:
    for path in map(Path, files.libraries):
        # Temporary files, unknown formats, and a copy of graphviz-dash without its dependencies.
        with suppress(OSError, ValueError, struct.error, ModuleNotFoundError):
            yield from _list_library_cubins(path, capability)
    file_names = {f"{name}{_CUBIN}" for name in names}
    for folder in files.folders:
        for parent, _, entries in os.walk(folder):
            for entry in file_names.intersection(entries):
                with suppress(OSError):
                    yield Path(parent, entry).read_bytes()


def _list_library_cubins(path: Path, capability: tuple[int, int]) -> Iterator[bytes]:
    if not path.is_file():
        return
    # Imported when code is read, so that recording needs no decompressor.
    from collectors.cupti.fatbins import list_cubins

    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        if read_machine(content) in _HOSTS:
            yield from list_cubins(content, capability)
