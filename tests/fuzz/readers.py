"""The readers of foreign files as functions of bytes that strangers chose, and seeds for each."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import shutil
import sqlite3
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random

from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.importers.archives import unpack_experiment
from graphviz_dash.ingest.formats.debug_dot import read_debug_dot
from graphviz_dash.ingest.formats.graph_data import read_graph_data
from graphviz_dash.ingest.formats.memory_snapshot import convert_memory_use, read_memory_snapshot
from graphviz_dash.ingest.formats.nsight import convert_nsight
from graphviz_dash.ingest.formats.pickles import read_pickle
from graphviz_dash.ingest.formats.registry import require_format
from graphviz_dash.ingest.formats.torch_trace import read_torch_trace
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.ingest.kineto.trace_head import read_head
from graphviz_dash.ingest.limits import Limits
from graphviz_dash.ingest.traffic import read_traffic
from tests.ingest.hostile import HOSTILE, hostile_file

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "sample_traces"
LOGS = ROOT / "tests" / "ingest" / "formats" / "compile_logs"
SMALL = Limits(decompressed_bytes=1 << 24, events=100_000, nodes=10_000)
"""Small limits, so that findings are faults of the reader."""

LONGEST = 1 << 16
"""Most bytes of an input."""

_NUMBERS = (b"0", b"-1", b"9" * 30, b"1e400", b"NaN", b"null", b"[]", b"{}")

DOT = r"""digraph dot {
subgraph cluster_1 {
label="graph_1" graph[style="dashed"];
"graph_1_node_0"[style="bold" shape="record" label="{KERNEL
| {ID | 0 (topoId: 3) | _Z4fillPf\<\<\<\{16,24\},\{32,4\},6912\>\>\>}
| {{node handle | func handle} | {0x000000004A64D630 | 0x000000004029F520}}
| {cooperative | 1}
| {priority | -2}
}"];

"graph_1_node_1"[style="solid" shape="rectangle" label="1
graph_2
node handle: 0x000000000B620C90
"];

"graph_1_node_0" -> "graph_1_node_1" [headlabel=0];
}
subgraph cluster_2 {
"graph_2_node_0"[label="0
MEMCPY
(HtoD,4096)
"];
}
}
"""
GRAPH = {
    "exec_graph_id": 9,
    "nodes": [
        {"index": 0, "node_type": "kernel", "node_id": 4, "kernel_name": "_Z4fillPf",
         "event_ptr": 0, "dependencies": []},
        {"index": 1, "node_type": "wait_event", "node_id": 5, "event_ptr": 7, "dependencies": [0]},
    ],
}  # fmt: skip
SNAPSHOT = {
    "segments": [{"total_size": 20, "allocated_size": 8, "segment_pool_id": [0, 1]}],
    "device_traces": [[{"action": "alloc", "size": 8}, {"action": "free_completed", "size": 2}]],
}


def _kineto(file: Path, folder: Path) -> None:
    read_head(file, SMALL)
    read_trace(file, SMALL)


def _pickle(file: Path, folder: Path) -> None:
    value = read_pickle(file, SMALL)
    if isinstance(value, dict | list):
        convert_memory_use(value, file, SMALL)


def _nsight(file: Path, folder: Path) -> None:
    for one in convert_nsight(file, folder, SMALL):
        read_trace(one.path, SMALL)
        one.path.unlink()


def _bundle(file: Path, folder: Path) -> None:
    run = folder / "run"
    run.mkdir(exist_ok=True)
    (run / "manifest.json").write_bytes(file.read_bytes())
    read_bundle(run)


def _upload(file: Path, folder: Path) -> None:
    target = folder / "experiment"
    shutil.rmtree(target, ignore_errors=True)
    with file.open("rb") as content:
        unpack_experiment(content, target, "x.zip")


READERS: dict[str, Callable[[Path, Path], object]] = {
    "kineto": _kineto,
    "debug-dot": lambda file, folder: read_debug_dot(file, SMALL),
    "graph-data": lambda file, folder: read_graph_data(file, SMALL),
    "memory-snapshot": lambda file, folder: read_memory_snapshot(file, SMALL),
    "torch-trace": lambda file, folder: read_torch_trace(file, SMALL),
    "pickle": _pickle,
    "nsight": _nsight,
    "bundle": _bundle,
    "upload": _upload,
    "traffic": lambda file, folder: read_traffic(file),
    "sniff": lambda file, folder: require_format(file, SMALL),
}


def seeds(name: str) -> Iterator[bytes]:
    """Small files that the reader takes, and those that were made to harm it."""
    traces = sorted(SAMPLES.glob("*/*/traces/*.json.gz"), key=lambda one: one.stat().st_size)[:4]
    yield from (hostile_file(file) for file in HOSTILE if _is_for(file, name))
    match name:
        case "kineto":
            for trace in traces:
                whole = trace.read_bytes()
                yield whole
                yield gzip.decompress(whole)
        case "debug-dot":
            yield DOT.encode()
        case "graph-data":
            yield json.dumps(GRAPH).encode()
        case "memory-snapshot":
            yield json.dumps(SNAPSHOT).encode()
        case "torch-trace":
            yield (LOGS / "torch-2.11.log").read_bytes()
        case "pickle":
            yield from (pickle.dumps(one, 4) for one in (GRAPH, SNAPSHOT, [1, (2.5, "x")]))
        case "nsight":
            yield database()
        case "bundle":
            yield from (one.read_bytes() for one in sorted(SAMPLES.glob("*/*/manifest.json"))[:4])
        case "upload":
            yield _archive(SAMPLES / "mlp-train" / "eager")
        case "traffic":
            yield from (b"# evening\n1\n16 2000\n17, 3\n", b"1 9999999\n2\n")
        case "sniff":
            yield from (DOT.encode(), json.dumps(GRAPH).encode(), pickle.dumps(GRAPH), database())


def mutated(random: Random, seed: bytes, other: bytes) -> bytes:
    """``seed`` with a few changes: flipped, cut, doubled, spliced with ``other``."""
    data = bytearray(seed)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(data) + 1)
        length = random.choice((1, 4, 64, 1_024))
        match random.randrange(7):
            case 0 if at < len(data):
                data[at] ^= 1 << random.randrange(8)
            case 1:
                del data[at : at + length]
            case 2:
                data[at:at] = data[at : at + length] * random.choice((1, 2, 50))
            case 3:
                data[at : at + length] = random.randbytes(length)
            case 4:
                begin = random.randrange(len(other) + 1)
                data[at:at] = other[begin : begin + length]
            case 5:
                data[at : at + random.randrange(8)] = random.choice(_NUMBERS)
            case _:
                del data[at:]
    return bytes(data[:LONGEST])


_ENDINGS = {
    ".pickle": "pickle",
    ".dot": "debug-dot",
    ".json": "memory-snapshot",
    ".sqlite": "nsight",
}


def _is_for(file: str, reader: str) -> bool:
    """Return True if a file has the reader's kind; compressed ones are too large to mutate."""
    return _ENDINGS.get(Path(file).suffix) == reader


def database() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.sqlite"
        with closing(sqlite3.connect(file)) as database:
            database.execute("PRAGMA page_size = 512")
            database.executescript(
                "CREATE TABLE StringIds (id, value); INSERT INTO StringIds VALUES (1, 'gemm');"
                "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId,"
                " correlationId, globalPid, demangledName, gridX, gridY, gridZ, graphNodeId);"
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL"
                " VALUES (5, 9, 0, 7, 1, 16777216, 1, 8, 1, 1, 25769803777);"
                "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId,"
                " nameId); INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 2, 16777217, 1, 1);"
            )
        return file.read_bytes()


def _archive(run: Path) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(run.rglob("*")):
            # No traces: what is larger than the fuzzer's inputs would be cut.
            if file.suffix == ".json":
                archive.write(file, f"x/eager/{file.relative_to(run)}")
    return packed.getvalue()
