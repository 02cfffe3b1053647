"""Build the JSON of an import."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypedDict

from graphviz_dash.app.compare.documents.run import AbsentFactDocument
from graphviz_dash.exports.documents.values import Bytes, FilePath, Sentence, display_path
from graphviz_dash.model.run import Absent, Source


class WrittenBundle(Protocol):
    """A bundle made from foreign files; importers implement it."""

    @property
    def path(self) -> Path:
        """Bundle folder."""
        ...

    @property
    def sources(self) -> tuple[Source, ...]:
        """Files that it was made from."""
        ...

    @property
    def absent(self) -> tuple[Absent, ...]:
        """Missing facts with the reason."""
        ...


class RefusedFiles(Protocol):
    """Files that did not become a bundle."""

    @property
    def files(self) -> tuple[str, ...]:
        """File names."""
        ...

    @property
    def reason(self) -> str:
        """Reason for the refusal."""
        ...


class SourceDocument(TypedDict):
    """A foreign file that a bundle was made from."""

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
    """Files that did not become a bundle."""

    files: list[str]
    reason: Sentence


class ImportDocument(TypedDict):
    """Imported bundles and omitted files."""

    runs: list[BundleDocument]
    not_imported: list[RefusedDocument]


def build_import_document(
    written: Sequence[WrittenBundle], refused: Sequence[RefusedFiles]
) -> ImportDocument:
    """Build the document of the written bundles and the refused files."""
    return {
        "runs": [_build_bundle_document(bundle) for bundle in written],
        "not_imported": [{"files": list(group.files), "reason": group.reason} for group in refused],
    }


def _build_bundle_document(bundle: WrittenBundle) -> BundleDocument:
    return {
        "path": display_path(bundle.path),
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
