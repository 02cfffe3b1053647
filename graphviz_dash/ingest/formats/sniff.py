"""What a foreign file is, by its content; its name is not looked at."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Final

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.byte_stream import ByteStream
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits

_HEAD: Final = 64 << 10
_SQLITE: Final = b"SQLite format 3\0"
_PICKLE: Final = re.compile(rb"\x80[\x02-\x05]")
_DOT: Final = re.compile(rb"\s*(?:strict\s+)?digraph\b")
_JSON: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*[\[{]")
_KEYS: Final = (
    (rb'"exec_graph_id"\s*:', "graph-data"),
    (rb'"(?:device_traces|segments)"\s*:\s*\[', "memory-snapshot"),
)
_EXPECTED: Final = (
    "a Kineto trace, a CUDA debug DOT, an Nsight Systems SQLite export, CUDAGraph.get_graph_data "
    "as JSON or pickle, or a torch.cuda.memory snapshot"
)


class SourceKind(StrEnum):
    """The foreign files that are read."""

    KINETO = "Kineto trace"
    DEBUG_DOT = "CUDA debug DOT"
    NSIGHT = "Nsight Systems SQLite export"
    GRAPH_DATA = "CUDAGraph.get_graph_data"
    MEMORY_SNAPSHOT = "torch.cuda.memory snapshot"
    PICKLE = "pickle"
    """Either of the two before; its content tells, which only a reader of pickles knows."""


def source_kind(path: Path, limits: Limits = DEFAULT_LIMITS) -> SourceKind:
    """What the file at ``path`` is, told from its first bytes, decompressed.

    Raises:
        InputError: nothing that is known, an empty file, or one that cannot be read.
    """
    with ByteStream(path, limits) as stream:
        head = stream.read(_HEAD)
        damage = stream.damage
    if not head:
        actual = damage.found if damage else "an empty file"
        raise InputError(path, actual, _EXPECTED)
    if head.startswith(_SQLITE):
        return SourceKind.NSIGHT
    if _PICKLE.match(head):
        return SourceKind.PICKLE
    if _DOT.match(head):
        return SourceKind.DEBUG_DOT
    if _JSON.match(head):
        if b'"traceEvents"' in head:
            return SourceKind.KINETO
        for pattern, kind in _KEYS:
            if re.search(pattern, head):
                graph = kind == "graph-data"
                return SourceKind.GRAPH_DATA if graph else SourceKind.MEMORY_SNAPSHOT
        return SourceKind.KINETO
    advice = ""
    if path.suffix in (".nsys-rep", ".qdrep"):
        advice = f"Export it first: nsys export --type sqlite {path.name}"
    raise InputError(path, "a file of no kind that is known", _EXPECTED, advice)
