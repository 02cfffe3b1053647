"""Writing a run bundle: beside its place, then renamed into it; no half bundle is ever seen."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from graphviz_dash.bundle.schema import MANIFEST, PLACES, graph_place
from graphviz_dash.bundle.staging import Staging
from graphviz_dash.errors import InputError
from graphviz_dash.model.doctor import DoctorReport
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.memory import MemoryPass
from graphviz_dash.model.node_ids import GraphIds, NodeIdPass
from graphviz_dash.model.observers import ObserverPass
from graphviz_dash.model.recording import Recording
from graphviz_dash.model.run import FileEntry, FileRole, GraphUpdates, Manifest, MemoryUse
from graphviz_dash.model.timings import CleanTimings

_CHUNK = 1 << 20


class BundleWriter:
    """Collects the parts of one run and puts them in place as a whole.

    Use as a context manager; without :meth:`commit` nothing stays behind. ``target`` must not
    exist (InputError); its parent is made if needed. The staging folder lies in the same parent,
    so that the final rename cannot cross file systems; its name starts with a dot and is ignored
    by readers.
    """

    def __init__(self, target: Path) -> None:
        if target.exists() or target.is_symlink():
            raise InputError(
                target,
                "something is already there",
                "a path that does not exist yet",
                "Choose another output folder, or remove that one.",
            )
        self.target = target
        self._entries: list[FileEntry] = []
        target.parent.mkdir(parents=True, exist_ok=True)
        self._folder = Staging(target.parent, target.name)
        self._staging = self._folder.path
        self._staging.chmod(0o755)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._folder.__exit__(kind, error, trace)

    def add_clean(self, clean: CleanTimings) -> None:
        """Adds the timings of the clean pass."""
        self._add(FileRole.CLEAN, PLACES[FileRole.CLEAN], msgspec.json.encode(clean))

    def add_memory(self, memory: MemoryUse) -> None:
        """Adds the allocator's statistics."""
        self._add(FileRole.MEMORY, PLACES[FileRole.MEMORY], msgspec.json.encode(memory))

    def add_memory_pass(self, found: MemoryPass) -> None:
        """Adds what the memory pass found."""
        place = PLACES[FileRole.MEMORY_PASS]
        self._add(FileRole.MEMORY_PASS, place, msgspec.json.encode(found))

    def add_recording(self, recording: Recording) -> None:
        """Adds what was seen of a program that ran as it is."""
        self._add(FileRole.RECORDING, PLACES[FileRole.RECORDING], msgspec.json.encode(recording))

    def add_doctor(self, report: DoctorReport) -> None:
        """Adds what the doctor found out."""
        self._add(FileRole.DOCTOR, PLACES[FileRole.DOCTOR], msgspec.json.encode(report))

    def add_updates(self, updates: GraphUpdates) -> None:
        """Adds what the driver answered to updates of one graph to another."""
        self._add(FileRole.UPDATES, PLACES[FileRole.UPDATES], msgspec.json.encode(updates))

    def add_observers(self, found: ObserverPass) -> None:
        """Adds the step as timed under each observer."""
        self._add(FileRole.OBSERVERS, PLACES[FileRole.OBSERVERS], msgspec.json.encode(found))

    def add_graph(self, graph: CapturedGraph) -> None:
        """Adds one captured graph."""
        self._add(FileRole.GRAPH, graph_place(graph.id), msgspec.json.encode(graph))

    def add_replay_ids(self, ids: tuple[GraphIds, ...]) -> None:
        """Adds the ids that the driver gave to the graphs of the traced pass."""
        role = FileRole.REPLAY_IDS
        self._add(role, PLACES[role], msgspec.json.encode(ids))

    def add_node_ids(self, found: NodeIdPass) -> None:
        """Adds the records of the node-id pass."""
        role = FileRole.NODE_IDS
        self._add(role, PLACES[role], gzip.compress(msgspec.json.encode(found), mtime=0))

    def add_trace(self, role: FileRole, source: Path) -> None:
        """Moves a Kineto trace, gzip-compressed already, into the bundle, its bytes untouched."""
        place = self._staging / PLACES[role]
        place.parent.mkdir(exist_ok=True)
        shutil.move(source, place)
        self._enter(role, PLACES[role])

    def commit(self, manifest: Manifest) -> None:
        """Writes the manifest with the entries of all added files and renames the whole into place.

        ``manifest.files`` is replaced by what was added. OSError when the disk refuses.
        """
        complete = msgspec.structs.replace(manifest, files=tuple(self._entries))
        text = msgspec.json.format(msgspec.json.encode(complete), indent=2)
        self._put(MANIFEST, text)
        _sync_folder(self._staging)
        # rename() over an empty folder would succeed silently, hence the check again.
        if self.target.exists():
            raise InputError(self.target, "something appeared there", "a path that does not exist")
        self._staging.rename(self.target)
        _sync_folder(self.target.parent)

    def _add(self, role: FileRole, place: str, content: bytes) -> None:
        self._put(place, content)
        self._enter(role, place)

    def _put(self, place: str, content: bytes) -> None:
        path = self._staging / place
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def _enter(self, role: FileRole, place: str) -> None:
        path = self._staging / place
        self._entries.append(FileEntry(place, role, path.stat().st_size, sha256_of(path)))


def sha256_of(path: Path) -> str:
    """The sha256 of a file's bytes as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
