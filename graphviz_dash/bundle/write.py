"""Writer of run bundles. Staging folders are renamed into place; no partial bundle is visible."""

from __future__ import annotations

import hashlib
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self, TypeVar

import msgspec

from graphviz_dash import __version__
from graphviz_dash.bundle.files import check_utf8
from graphviz_dash.bundle.parts import JsonPart, format_graph_path, format_trace_path
from graphviz_dash.bundle.schema import MANIFEST_FILE
from graphviz_dash.bundle.staging import Staging
from graphviz_dash.errors import InputError
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.run import (
    FORMAT_NAME,
    FORMAT_VERSION,
    Absent,
    Environment,
    ExecutionMode,
    Failure,
    FileEntry,
    FileRole,
    Manifest,
    RankGroup,
    WorkloadInfo,
)

T = TypeVar("T")

_CHUNK = 1 << 20


def create_manifest(
    command: tuple[str, ...],
    workload: WorkloadInfo,
    mode: ExecutionMode,
    environment: Environment,
    absent: tuple[Absent, ...],
    failures: tuple[Failure, ...] = (),
    rank: int | None = None,
    group: RankGroup | None = None,
    status: Literal["killed"] | None = None,
) -> Manifest:
    """Create the manifest of a new run, without files."""
    return Manifest(
        format=FORMAT_NAME,
        version=FORMAT_VERSION,
        tool_version=__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
        workload=workload,
        mode=mode,
        rank=rank,
        group=group,
        status=status or ("failed" if failures else "complete"),
        failures=failures,
        absent=absent,
        environment=environment,
        files=(),
    )


class BundleWriter:
    """Collects the parts of one run and renames them into place together.

    Use as a context manager; without :meth:`commit` nothing remains. The staging folder is hidden,
    and in the same parent, so that the rename cannot cross file systems.

    Args:
        target: New folder of the bundle. Its parent is created if needed.

    Raises:
        InputError: ``target`` exists.
    """

    def __init__(self, target: Path) -> None:
        check_utf8(target)
        if target.exists() or target.is_symlink():
            raise InputError(
                target,
                "the path already exists",
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

    def __exit__(self, *error: object) -> None:
        self._folder.__exit__(*error)

    def add(self, part: JsonPart[T], content: T) -> None:
        """Add a part with one JSON document."""
        self._add_content(part.role, part.path, part.encode(content))

    def add_graph(self, graph: CapturedGraph) -> None:
        """Add one captured graph."""
        self._add_content(FileRole.GRAPH, format_graph_path(graph.id), msgspec.json.encode(graph))

    def add_trace(self, role: FileRole, source: Path) -> None:
        """Move a gzip-compressed Kineto trace unchanged into the bundle."""
        path = format_trace_path(role, sum(entry.role is role for entry in self._entries))
        target = self._staging / path
        target.parent.mkdir(exist_ok=True)
        shutil.move(source, target)
        self._add_entry(role, path)

    def commit(self, manifest: Manifest) -> None:
        """Write the manifest, with ``manifest.files`` replaced, and rename the bundle into place.

        Raises:
            OSError: Writing failed.
        """
        final_manifest = msgspec.structs.replace(manifest, files=tuple(self._entries))
        text = msgspec.json.format(msgspec.json.encode(final_manifest), indent=2)
        self._write_file(MANIFEST_FILE, text)
        _flush_folder(self._staging)
        # rename() would silently replace an empty folder, so check again.
        if self.target.exists():
            raise InputError(
                self.target, "the path was created meanwhile", "a path that does not exist"
            )
        self._staging.rename(self.target)
        _flush_folder(self.target.parent)

    def _add_content(self, role: FileRole, path: str, content: bytes) -> None:
        self._write_file(path, content)
        self._add_entry(role, path)

    def _write_file(self, path: str, content: bytes) -> None:
        target = self._staging / path
        target.parent.mkdir(exist_ok=True)
        with target.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def _add_entry(self, role: FileRole, path: str) -> None:
        file = self._staging / path
        self._entries.append(FileEntry(path, role, file.stat().st_size, compute_sha256(file)))


def compute_sha256(path: Path) -> str:
    """Compute the sha256 of a file as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
