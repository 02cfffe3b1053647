"""Notes that a marked program leaves for the launching process. Needs no torch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from graphviz_dash.model.doctor import CodeLocation
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.replay_check import InvalidArgument, MemoryFate, NodeOwner

PROCESS_FILE: Final = "process.json"
MARKS_NAME: Final = "marks"
_COLLECTIVES: Final = ("nccl", "rccl", "all_reduce", "allreduce", "all_gather", "reduce_scatter")


class MarksSettings(Struct, frozen=True):
    """Settings of the hook."""

    folder: str
    """Folder for files of marks, in shared memory if possible."""
    strict: bool = False
    marks: bool = True
    """Put marks into graphs; otherwise only memory is watched."""


class ProcessNote(Struct, frozen=True):
    """A process of the program."""

    pid: int
    rank: int | None
    """Rank, or None outside a distributed program."""
    marks: str | None
    """Path of its file of marks, or None without one."""
    error: str | None = None
    """Error of its CUDA context at the end, or None."""
    is_complete: bool = False
    """It reached its end."""
    failures: int = 0
    """Errors of the check itself."""
    first_failure: str | None = None
    """Type and source line of the first of them. None without any."""


class NodeNote(Struct, frozen=True, array_like=True):
    """A node of a marked graph."""

    kind: str
    name: str | None
    op: str | None
    place: int | None
    """Index into the graph's places."""
    module: str | None
    invalid_arguments: tuple[tuple[int, int], ...] = ()
    """Position and value of arguments that may be invalid addresses."""


class GraphNote(Struct, frozen=True):
    """A captured graph."""

    id: str
    number: int | None
    """Number in the file of marks, or None if not marked."""
    capture_place: CodeLocation | None
    nodes: tuple[NodeNote, ...]
    edges: tuple[tuple[int, int], ...]
    places: tuple[CodeLocation, ...]
    key: str | None = None
    reason: str | None = None
    """Reason why it is not marked, or None."""
    partial: tuple[str, ...] = ()
    """Parts of it without marks, with reasons."""

    def get_node(self, index: int) -> NodeOwner:
        """Return a node with its code."""
        node = self.nodes[index]
        numbers = self.list_collectives()
        return NodeOwner(
            graph=self.id,
            index=index,
            kind=node.kind,
            name=node.name,
            op=node.op,
            location=None if node.place is None else self.places[node.place],
            module=node.module,
            collective=numbers.index(index) + 1 if index in numbers else None,
        )

    def list_invalid_arguments(self, indices: Sequence[int]) -> tuple[InvalidArgument, ...]:
        """Return the arguments of nodes that may be invalid addresses."""
        return tuple(
            InvalidArgument(index, argument, hex(value))
            for index in indices
            for argument, value in self.nodes[index].invalid_arguments
        )

    def list_collectives(self) -> list[int]:
        """Return the nodes that run a collective, in order."""
        return [index for index, node in enumerate(self.nodes) if is_collective(node.name)]


def is_collective(name: str | None) -> bool:
    """Check if a kernel runs a collective, by its name."""
    return name is not None and any(part in name.lower() for part in _COLLECTIVES)


class NoteFolder:
    """The notes of one process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fates = 0

    def write_process(self, note: ProcessNote) -> None:
        """Write or replace the note of the process."""
        self._put(PROCESS_FILE, note)

    def write_graph(self, note: GraphNote) -> None:
        """Write the note of a graph."""
        self._put(f"{note.id}.graph.json", note)

    def write_captures(self, graphs: Sequence[CapturedGraph]) -> None:
        """Write a graph as read from the driver, followed by its bodies."""
        self._put(f"{graphs[0].id}.capture.json", graphs)

    def read_captures(self, graph_id: str) -> tuple[CapturedGraph, ...]:
        """Read a graph and its bodies. Empty if it was not written."""
        file = self.path / f"{graph_id}.capture.json"
        if not file.exists():
            return ()
        return msgspec.json.decode(file.read_bytes(), type=tuple[CapturedGraph, ...])

    def write_fate(self, fate: MemoryFate) -> None:
        """Add a report on memory."""
        self._put(f"fate-{self._fates}.json", fate)
        self._fates += 1

    def read_process(self) -> ProcessNote | None:
        """Read the note of the process, or None if it is not written yet."""
        file = self.path / PROCESS_FILE
        if not file.exists():
            return None
        return msgspec.json.decode(file.read_bytes(), type=ProcessNote)

    def read_graphs(self) -> list[GraphNote]:
        """Read the notes of all graphs, in order."""
        files = sorted(self.path.glob("*.graph.json"), key=lambda file: _number(file.name))
        return [msgspec.json.decode(file.read_bytes(), type=GraphNote) for file in files]

    def read_fates(self) -> list[MemoryFate]:
        """Read the reports on memory, in order."""
        files = sorted(self.path.glob("fate-*.json"), key=lambda file: _number(file.name))
        return [msgspec.json.decode(file.read_bytes(), type=MemoryFate) for file in files]

    def _put(self, name: str, content: Struct | Sequence[Struct]) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        part = self.path / f".{name}"
        part.write_bytes(msgspec.json.encode(content))
        os.replace(part, self.path / name)


def _number(name: str) -> int:
    digits = "".join(character for character in name.partition(".")[0] if character.isdigit())
    return int(digits or 0)
