"""JSON of an import."""

from __future__ import annotations

from collections.abc import Sequence

from graphviz_dash.app.compare.documents.run import AbsentFactDocument
from graphviz_dash.exports.documents.values import (
    Bytes,
    Document,
    FilePath,
    Sentence,
    build,
    display_path,
)
from graphviz_dash.importers.bundles import ImportedRun
from graphviz_dash.importers.many import SkippedFiles


class SourceDocument(Document, frozen=True):
    """A foreign file that a bundle was made from."""

    name: str
    kind: str
    bytes: Bytes
    sha256: str
    method: Sentence | None


class BundleDocument(Document, frozen=True):
    """A bundle that was written."""

    path: FilePath
    sources: list[SourceDocument]
    absent: list[AbsentFactDocument]


class RefusedDocument(Document, frozen=True):
    """Files that did not become a bundle."""

    files: list[str]
    reason: Sentence


class ImportDocument(Document, frozen=True):
    """Imported bundles and omitted files."""

    runs: list[BundleDocument]
    not_imported: list[RefusedDocument]


def build_import_document(
    written: Sequence[ImportedRun], refused: Sequence[SkippedFiles]
) -> ImportDocument:
    """Build the document of the written bundles and the refused files."""
    return build(
        ImportDocument,
        runs=[build(BundleDocument, bundle, path=display_path(bundle.path)) for bundle in written],
        not_imported=refused,
    )
