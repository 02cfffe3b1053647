"""The names of the nodes of thousands of graphs, read by a process of its own.

A million nodes are 400 MB of JSON and a second of work for one core. In a thread of the server it
would hold up the page that is being drawn, and whoever asks for another; a process beside it, which
lets others go first, takes what they leave.

``python -m graphviz_dash.ingest.node_names BUNDLE`` reads ids of graphs, a JSON list, from stdin
and writes :class:`~graphviz_dash.model.node_names.NodeNames` to stdout, in MessagePack.
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
from graphviz_dash.ingest.processes import PROCESSES_VARIABLE, module_path
from graphviz_dash.model.node_names import NodeNames
from graphviz_dash.model.run import FileRole

LARGE_BYTES: Final = 24 << 20
"""Graphs in JSON that a process is worth: it takes 0.2 s to start."""

_MODULE: Final = "graphviz_dash.ingest.node_names"
_NICENESS: Final = 10


def graph_bytes(path: Path) -> int:
    """What the graphs of the bundle at ``path`` take, by its manifest.

    Raises:
        InputError: as :func:`read_manifest`.
    """
    files = read_manifest(path).files
    return sum(entry.bytes for entry in files if entry.role is FileRole.GRAPH)


def node_names(path: Path, graphs: Sequence[str]) -> NodeNames:
    """As :func:`read_node_names`; by another process where they are large.

    Raises:
        InputError: as :func:`read_bundle`.
    """
    alone = os.environ.get(PROCESSES_VARIABLE) == "1"
    if not alone and graph_bytes(path) >= LARGE_BYTES:
        answer = _by_process(path, graphs)
        if answer is not None:
            return answer
    # Also where the process failed: what is wrong is then said as for any bundle.
    return read_node_names(path, graphs)


def _by_process(path: Path, graphs: Sequence[str]) -> NodeNames | None:
    try:
        ended = subprocess.run(
            # No module is imported from the working folder, which is a visitor's.
            [sys.executable, "-P", "-m", _MODULE, str(path.resolve())],
            input=msgspec.json.encode(graphs),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(module_path())},
            start_new_session=True,
            check=True,
        )
        return msgspec.msgpack.decode(ended.stdout, type=NodeNames)
    except (OSError, subprocess.CalledProcessError, msgspec.DecodeError):
        return None


def main() -> None:
    """Answers as the module says; what fails ends the process, and is read again by who asked."""
    gc.disable()  # at its end in a moment, and what it makes has no cycles
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    graphs = msgspec.json.decode(sys.stdin.buffer.read(), type=list[str])
    names = read_node_names(Path(sys.argv[1]), graphs)
    sys.stdout.buffer.write(msgspec.msgpack.encode(names))


if __name__ == "__main__":
    main()
