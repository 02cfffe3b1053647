"""What an import made and left out, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypedDict

from graphviz_dash.app.compare.documents.run import AbsentFactDocument
from graphviz_dash.exports.documents.values import Bytes, FilePath, Sentence, shown
from graphviz_dash.model.run import Absent, Source


class WrittenBundle(Protocol):
    """A bundle that was made of foreign files; importers have it."""

    @property
    def path(self) -> Path:
        """Its folder."""
        ...

    @property
    def sources(self) -> tuple[Source, ...]:
        """The files that it was made of."""
        ...

    @property
    def absent(self) -> tuple[Absent, ...]:
        """What it lacks, and why."""
        ...


class RefusedFiles(Protocol):
    """Files of which no bundle was made."""

    @property
    def files(self) -> tuple[str, ...]:
        """Their names."""
        ...

    @property
    def reason(self) -> str:
        """Why none was made."""
        ...


class SourceDocument(TypedDict):
    """A foreign file that a bundle was made of."""

    name: str
    kind: str
    bytes: Bytes
    sha256: str
    method: Sentence | None


class BundleDocument(TypedDict):
    """A bundle that was written."""

    path: FilePath
    sources: list[SourceDocument]
    absent: list[AbsentFactDocument]


class RefusedDocument(TypedDict):
    """Files of which no bundle was made."""

    files: list[str]
    reason: Sentence


class ImportDocument(TypedDict):
    """What an import made and left out."""

    runs: list[BundleDocument]
    not_imported: list[RefusedDocument]


def import_document(
    written: Sequence[WrittenBundle], refused: Sequence[RefusedFiles]
) -> ImportDocument:
    """The bundles that were written, and the files of which none was made."""
    return {
        "runs": [_bundle_document(bundle) for bundle in written],
        "not_imported": [{"files": list(group.files), "reason": group.reason} for group in refused],
    }


def _bundle_document(bundle: WrittenBundle) -> BundleDocument:
    return {
        "path": shown(bundle.path),
        "sources": [
            {
                "name": source.name,
                "kind": source.kind,
                "bytes": source.bytes,
                "sha256": source.sha256,
                "method": source.method,
            }
            for source in bundle.sources
        ],
        "absent": [{"fact": absent.fact, "reason": absent.reason} for absent in bundle.absent],
    }
