"""Make sample experiments smaller without changing any figure.

    python -m scripts.pack_samples sample_traces/mlp-train [...]

Removes the Python frames of capture traces in which no operator, CUDA call or range starts: nothing
is attributed to them, and they are nine tenths of such a trace. Compresses graphs, and all files
again at the highest level. Then writes sizes and sha256 to the manifests. Running it again changes
nothing.
"""

from __future__ import annotations

import argparse
import gzip
import sys
from bisect import bisect_left
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import msgspec

from graphviz_dash.bundle.schema import MANIFEST_FILE, SUPPORTED_VERSIONS
from graphviz_dash.bundle.write import compute_sha256
from graphviz_dash.model.run import FileEntry, FileRole, Manifest

_FRAMES: Final = "python_function"
_CATEGORIES: Final = ("cuda_runtime", "cuda_driver", "cpu_op", "user_annotation")
"""Categories of the CPU events that are attributed to the frames around them."""


def drop_empty_frames(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Drop the Python frames in which no event of another category starts on the same thread."""
    starts = defaultdict(list)
    for event in events:
        if event.get("ph") == "X" and event.get("cat") in _CATEGORIES:
            starts[event["tid"]].append(event["ts"])
    for times in starts.values():
        times.sort()

    def has_content(event: dict[str, Any]) -> bool:
        times = starts[event["tid"]]
        place = bisect_left(times, event["ts"])
        return place < len(times) and times[place] <= event["ts"] + event["dur"]

    return [event for event in events if event.get("cat") != _FRAMES or has_content(event)]


def pack_bundle(bundle: Path) -> None:
    """Pack the files of the bundle and rewrite its manifest."""
    path = bundle / MANIFEST_FILE
    manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    entries = tuple(_pack_file(bundle, entry) for entry in manifest.files)
    packed = any(entry.role is FileRole.GRAPH for entry in entries)
    version = SUPPORTED_VERSIONS[-1] if packed else manifest.version
    manifest = msgspec.structs.replace(manifest, files=entries, version=version)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2))


def _pack_file(bundle: Path, entry: FileEntry) -> FileEntry:
    file = bundle / entry.path
    if entry.role is FileRole.GRAPH and file.suffix != ".gz":
        target = file.with_name(f"{file.name}.gz")
        target.write_bytes(_compress(file.read_bytes()))
        file.unlink()
    elif file.suffix == ".gz":
        target = file
        before = file.read_bytes()
        content = gzip.decompress(before)
        if entry.role is FileRole.CAPTURE_TRACE:
            trace = msgspec.json.decode(content)
            events = drop_empty_frames(trace["traceEvents"])
            if len(events) < len(trace["traceEvents"]):
                content = msgspec.json.encode({**trace, "traceEvents": events})
        after = _compress(content)
        if len(after) < len(before):
            target.write_bytes(after)
    else:
        return entry
    name = target.relative_to(bundle).as_posix()
    return FileEntry(name, entry.role, target.stat().st_size, compute_sha256(target))


def _compress(content: bytes) -> bytes:
    return gzip.compress(content, 9, mtime=0)


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
