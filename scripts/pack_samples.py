"""Make sample experiments smaller without changing any figure.

    python -m scripts.pack_samples sample_traces/mlp-train [...]

Reduces capture traces as the collector does. Renames fields of earlier format versions. Compresses
graphs, and all files again at the highest level. Then writes sizes and sha256 to the manifests.
Running it again changes nothing.
"""

from __future__ import annotations

import argparse
import gzip
import sys
from pathlib import Path
from typing import Any, Final

import deflate
import msgspec

from collectors.passes.capture_events import reduce_capture_trace
from graphviz_dash.bundle.parts import JSON_PARTS
from graphviz_dash.bundle.read import read_manifest
from graphviz_dash.bundle.renamed_fields import rename_fields
from graphviz_dash.bundle.schema import MANIFEST_FILE
from graphviz_dash.bundle.write import compute_sha256
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.run import FORMAT_VERSION, FileEntry, FileRole

_TYPES: Final[dict[FileRole, Any]] = {
    **{part.role: part.content_type for part in JSON_PARTS},
    FileRole.GRAPH: CapturedGraph,
}
"""Type of the JSON by role; None for traces."""

_MAX_LEVEL: Final = 12
"""Level of libdeflate; files are a tenth smaller than with level 9 of gzip."""


def pack_bundle(bundle: Path) -> None:
    """Pack the files of the bundle and rewrite its manifest."""
    path = bundle / MANIFEST_FILE
    manifest = read_manifest(bundle)
    entries = tuple(_pack_file(bundle, entry, manifest.version) for entry in manifest.files)
    manifest = msgspec.structs.replace(manifest, files=entries, version=FORMAT_VERSION)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2))


def _pack_file(bundle: Path, entry: FileEntry, version: int) -> FileEntry:
    file = bundle / entry.path
    before = file.read_bytes()
    has_gzip = file.suffix == ".gz"
    text = gzip.decompress(before) if has_gzip else before
    content = text
    if entry.role is FileRole.CAPTURE_TRACE:
        content = reduce_capture_trace(content)
    elif (kind := _TYPES.get(entry.role)) and version < FORMAT_VERSION:
        content = rename_fields(content, kind)
    target = file
    if entry.role is FileRole.GRAPH and not has_gzip:
        target = file.with_name(f"{file.name}.gz")
        file.unlink()
    after = _compress(content) if target.suffix == ".gz" else content
    if target != file or content != text or len(after) < len(before):
        target.write_bytes(after)
    name = target.relative_to(bundle).as_posix()
    return FileEntry(name, entry.role, target.stat().st_size, compute_sha256(target))


def _compress(content: bytes) -> bytes:
    return bytes(deflate.gzip_compress(content, _MAX_LEVEL))


def main() -> int:
    """Pack the bundles of the experiments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiments", nargs="+", type=Path)
    for experiment in parser.parse_args().experiments:
        for manifest in sorted(experiment.glob(f"*/{MANIFEST_FILE}")):
            pack_bundle(manifest.parent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
