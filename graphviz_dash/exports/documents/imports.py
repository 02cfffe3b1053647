"""What an import made and left out, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from graphviz_dash.exports.documents.values import shown
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


def import_document(
    written: Sequence[WrittenBundle], refused: Sequence[RefusedFiles]
) -> dict[str, object]:
    """The bundles that were written, and the files of which none was made."""
    return {
        "runs": [_bundle_document(bundle) for bundle in written],
        "not_imported": [{"files": list(group.files), "reason": group.reason} for group in refused],
    }


def _bundle_document(bundle: WrittenBundle) -> dict[str, object]:
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
