"""Reader of node names of thousands of graphs, in a separate process.

A million nodes are 400 MB of JSON and a second of work. A thread of the server would delay pages.

``python -m graphviz_dash.ingest.node_names BUNDLE`` reads graph ids as a JSON list from stdin and
writes :class:`~graphviz_dash.model.node_names.NodeNames` to stdout, in MessagePack.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from graphviz_dash.bundle.read import read_manifest, read_node_names
from graphviz_dash.ingest.processes import PROCESSES_VARIABLE, get_module_path
from graphviz_dash.model.node_names import NodeNames
from graphviz_dash.model.run import FileRole

MIN_PROCESS_BYTES: Final = 24 << 20
"""Minimum JSON that justifies a process, which starts in 0.2 s."""

_MODULE: Final = "graphviz_dash.ingest.node_names"
_NICENESS: Final = 10


def compute_graph_bytes(path: Path) -> int:
    """Compute the size of a bundle's graphs from its manifest.

    Raises:
        InputError: As in :func:`read_manifest`.
    """
    files = read_manifest(path).files
    return sum(entry.bytes for entry in files if entry.role is FileRole.GRAPH)


def load_node_names(path: Path, graphs: Sequence[str]) -> NodeNames:
    """Read node names like :func:`read_node_names`, in another process if the graphs are large.

    Raises:
        InputError: As in :func:`read_bundle`.
    """
    is_single_process = os.environ.get(PROCESSES_VARIABLE) == "1"
    if not is_single_process and compute_graph_bytes(path) >= MIN_PROCESS_BYTES:
        names = _read_in_process(path, graphs)
        if names is not None:
            return names
    # Also after a failure of the process, so that errors are reported as for any bundle.
    return read_node_names(path, graphs)


def _read_in_process(path: Path, graphs: Sequence[str]) -> NodeNames | None:
    try:
        completed = subprocess.run(
            # -P: no module is imported from the working folder, which belongs to a visitor.
            [sys.executable, "-P", "-m", _MODULE, str(path.resolve())],
            input=msgspec.json.encode(graphs),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(get_module_path())},
            start_new_session=True,
            check=True,
        )
        return msgspec.msgpack.decode(completed.stdout, type=NodeNames)
    except (OSError, subprocess.CalledProcessError, msgspec.DecodeError):
        return None


def main() -> None:
    """Write the names requested on stdin. After an error, the caller reads the bundle itself."""
    gc.disable()  # the process is short-lived and creates no cycles
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    graphs = msgspec.json.decode(sys.stdin.buffer.read(), type=list[str])
    names = read_node_names(Path(sys.argv[1]), graphs)
    sys.stdout.buffer.write(msgspec.msgpack.encode(names))


if __name__ == "__main__":
    main()
