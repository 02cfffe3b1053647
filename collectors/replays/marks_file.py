"""The file in which a marked program shows how far its replays are.

The GPU writes into it and the launching process reads it, also after the program's context or the
program itself is gone. All numbers are unsigned 32-bit words in the machine's order::

    header     magic, version, number of graphs, words in use
    graphs     one row each: launches, started replays, first word, number of nodes
    words      one per node: the last replay in which the node ended
"""

from __future__ import annotations

import mmap
import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MAGIC: Final = 0x4752_4D4B
VERSION: Final = 1
MAX_GRAPHS: Final = 4096
BYTES: Final = 8 << 20
"""Size of the file: graphs with about two million nodes in total."""

_WORD: Final = 0xFFFFFFFF
_HEADER: Final = 4
_ROW: Final = 4
_FIRST_WORD: Final = _HEADER + _ROW * MAX_GRAPHS
_WORDS: Final = BYTES // 4


def _allocate(descriptor: int) -> None:
    """Reserve the room of the file.

    A file system that is full refuses this. Without it, the first write to a page without room
    would kill the program with SIGBUS.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, BYTES)
    else:
        os.ftruncate(descriptor, BYTES)


class MarksFullError(Exception):
    """No room for another graph."""


@dataclass(frozen=True)
class GraphProgress:
    """Progress of one graph."""

    launches: int
    """Replays that the program requested."""
    current: int
    """Replays that the GPU began."""
    node_replays: tuple[int, ...]
    """Last replay in which each node ended."""

    @property
    def is_busy(self) -> bool:
        """A replay was requested or began, and has not ended."""
        is_waiting = 0 < (self.launches - self.current) & _WORD < 1 << 31
        return is_waiting or any(word != self.current for word in self.node_replays)

    @property
    def other_launches(self) -> int:
        """Replays that began without a request, such as launches from the device."""
        count = (self.current - self.launches) & _WORD
        return count if count < 1 << 31 else 0

    @property
    def completions(self) -> tuple[bool, ...]:
        """For each node: True if it ended in the replay that the GPU began last."""
        return tuple(word == self.current for word in self.node_replays)


class MarksFile:
    """The file, mapped into this process.

    Raises:
        OSError: The file cannot be created or mapped; a new file is removed.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path = path
        flags = os.O_RDWR | (os.O_CREAT | os.O_EXCL if create else 0)
        with ExitStack() as cleanup:
            descriptor = os.open(path, flags, 0o600)
            cleanup.callback(os.close, descriptor)
            with ExitStack() as undo:
                if create:
                    undo.callback(path.unlink)
                    _allocate(descriptor)
                self.map = mmap.mmap(descriptor, BYTES)
                undo.pop_all()
        self._view = memoryview(self.map).cast("I")
        if create:
            self._view[0], self._view[1], self._view[2], self._view[3] = (
                MAGIC,
                VERSION,
                0,
                _FIRST_WORD,
            )

    @property
    def is_valid(self) -> bool:
        """The file has this module's format."""
        return self._view[0] == MAGIC and self._view[1] == VERSION

    @property
    def graphs(self) -> int:
        """Number of graphs."""
        return int(self._view[2])

    def add_graph(self, nodes: int) -> int:
        """Add a graph and return its number.

        Raises:
            MarksFullError: The file is full.
        """
        number, first = self.graphs, int(self._view[3])
        if number >= MAX_GRAPHS or first + nodes > _WORDS:
            raise MarksFullError(f"no room for a graph of {nodes:,} nodes")
        row = _HEADER + _ROW * number
        self._view[row : row + 4] = memoryview(
            b"".join(value.to_bytes(4, "little") for value in (0, 0, first, nodes))
        ).cast("I")
        self._view[3] = first + nodes
        self._view[2] = number + 1
        return number

    def count_launch(self, number: int) -> None:
        """Count a requested replay of a graph."""
        row = _HEADER + _ROW * number
        self._view[row] = (self._view[row] + 1) & _WORD

    def get_started_offset(self, number: int) -> int:
        """Return the byte offset of the word that counts started replays."""
        return 4 * (_HEADER + _ROW * number + 1)

    def get_node_offset(self, number: int, node: int) -> int:
        """Return the offset in bytes of a node's word."""
        return 4 * (int(self._view[_HEADER + _ROW * number + 2]) + node)

    def read(self, number: int) -> GraphProgress:
        """Read the progress of a graph."""
        row = _HEADER + _ROW * number
        launches, current, first, nodes = self._view[row : row + 4].tolist()
        return GraphProgress(launches, current, tuple(self._view[first : first + nodes].tolist()))

    def close(self) -> None:
        """Unmap the file. The GPU must not write into this process's mapping any more."""
        self._view.release()
        self.map.close()
