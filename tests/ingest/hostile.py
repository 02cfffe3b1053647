from __future__ import annotations

import gzip
import pickle
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Final

_KERNEL = '"graph_1_node_0"[style="bold" shape="record" label="{KERNEL\n| '


def _dot(label: str) -> bytes:
    text = f'digraph dot {{\nsubgraph cluster_1 {{\n{_KERNEL}{label}\n}}"];\n}}\n}}\n'
    return text.encode()


def _wide_database() -> bytes:
    """A table whose 1,500 generated columns are half a megabyte each, for every row."""
    generated = ", ".join(f"g{n} AS (filler || {n})" for n in range(1_500))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.sqlite"
        with closing(sqlite3.connect(file)) as database:
            database.execute(
                "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId,"
                f" correlationId, globalPid, demangledName, filler, {generated})"
            )
            database.execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5, 9, 0, 7, 1, 16777216, 1, ?)",
                ["x" * 700_000],
            )
            database.commit()
        return file.read_bytes()


def _gzipped_json(begin: bytes, part: bytes, count: int) -> bytes:
    return gzip.compress(begin + (part + b",") * count + part + b"]}")


def _one_list_often() -> bytes:
    """One list of 50,000 events, named 100,000 times."""
    events = [{"action": "alloc", "size": 1}] * 50_000
    return pickle.dumps({"segments": [], "device_traces": [events] * 100_000})


_MADE: Final[dict[str, Callable[[], bytes]]] = {
    "hash-of-shared-tuples.pickle": lambda: b"\x80\x02})" + b"2\x86" * 64 + b"K\x01s.",
    "set-of-shared-tuples.pickle": lambda: b"\x80\x04\x8f()" + b"2\x86" * 64 + b"\x90.",
    "nested-tuples.pickle": lambda: b"\x80\x02})" + b"\x85" * 200_000 + b"K\x01s.",
    "nested-tuples-as-value.pickle": lambda: b"\x80\x02)" + b"\x85" * 200_000 + b".",
    "one-list-often.pickle": _one_list_often,
    "lists.pickle.gz": lambda: gzip.compress(b"\x80\x04](" + b"]" * 20_000_000 + b"e."),
    "spaces.dot": lambda: _dot("{ID | 0 | " + " " * 20_000),
    "launches.dot": lambda: _dot("{ID | 0 | " + "\\<\\<\\<" * 3_000),
    "plain-launches.dot": lambda: _dot("").replace(b"{KERNEL\n| ", b"0\n" + b"\\<\\<\\<" * 100_000),
    "digits.dot": lambda: _dot("{ID | 0 | a\\<\\<\\<" + "9" * 5_000 + ",1,0\\>\\>\\>}"),
    "digits-of-a-flag.dot": lambda: _dot(
        "{ID | 0 | a\\<\\<\\<1,1,0\\>\\>\\>}\n| {priority | " + "9" * 5_000 + "}"
    ),
    "digits-of-a-node.dot": lambda: _dot("").replace(b"node_0", b"node_" + b"9" * 5_000),
    "empty-lists.json.gz": lambda: _gzipped_json(
        b'{"segments": [], "device_traces": [', b"[]", 10_000_000
    ),
    "empty-events.json.gz": lambda: _gzipped_json(b'{"traceEvents": [', b"{}", 6_000_000),
    "generated-columns.sqlite": _wide_database,
}

HOSTILE: Final = tuple(_MADE)


@cache
def hostile_file(name: str) -> bytes:
    """Build one file of a few hundred bytes to a megabyte; some take a second."""
    return _MADE[name]()


def hostile_files() -> dict[str, bytes]:
    return {name: hostile_file(name) for name in HOSTILE}
