"""How long loading a Kineto trace takes, beside other readers, on the same file in the same run.

    python benchmarks/ingest_vs_hta.py --hta /tmp/hta-venv/bin/python [--tracelens PYTHON]
        [--simdjson DIR] [--before DIR] [--trace PATH | --megabytes N [--source PATH]]
        [--only 'NAME;...']

Each load runs in a new process, interleaved with other readers, and is timed after the imports.
Memory is the peak of the process and its children.

The peers are loaded as documented: HolisticTraceAnalysis by ``Trace.parse_traces`` without memory
profiling, which is in its favour; TraceLens by ``TreePerfAnalyzer.from_file``. ``--end-after``
limits their time. Each has its own environment (``python -m venv /tmp/hta-venv &&
/tmp/hta-venv/bin/pip install HolisticTraceAnalysis``; TraceLens from its sources). DIR holds
simdjson.h and simdjson.cpp (or the compiled library) for the reference ``ondemand.cpp``, which
fills columns in C++ in one process. ``--before`` is a checkout of an earlier version.

Also measures reopening from the cache: all five tables in a warm and in a new process, and the GPU
table in a new one.

Without ``--trace``, the trace consists of copies of a sample trace or ``--source``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "sample_traces/mlp-train/eager/traces/replay.json.gz"
MEGABYTE = 1_000_000
IDS = ("correlation", "External id", "Ev Idx", "Sequence number")
OURS = "graphviz-dash"
_BETWEEN = 0.1  # seconds between two looks at memory

# Around each: seconds of the load, of all processors, events or rows, those on the GPU, memory.
_BEFORE = """
import resource, time
def used():
    print(time.monotonic(), flush=True)
    both = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)
"""
_AFTER = """
cpu = used() - before
try:  # getrusage's figure begins with what the process that started this one had
    with open("/proc/self/status") as status:
        (memory,) = (int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))
except OSError:
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(done - begun, cpu, events, on_gpu, memory)
"""
_READ = """
import sys, time
from pathlib import Path
try:
    from graphviz_dash.ingest.kineto.reader import read_trace
except ImportError:  # version 0.1
    from graphviz_dash.ingest.kineto import read_trace
before = used()
begun = time.perf_counter()
trace = read_trace(Path(sys.argv[1]){options})
done = time.perf_counter()
events, on_gpu = trace.info.events, trace.gpu.height
"""
_ALL_TABLES = ("gpu", "runtime", "ops", "annotations", "python")
_REOPENED = """
import os, sys, time
from pathlib import Path
from graphviz_dash.ingest.cache import TraceCache, open_trace
path, cache = Path(sys.argv[1]), TraceCache(Path(os.environ["BENCHMARK_CACHE"]))
for _ in {warm}[:1]:
    before = open_trace(path, cache=cache)
    [getattr(before, name) for name in {warm}]
before = used()
begun = time.perf_counter()
trace = open_trace(path, cache=cache)
heights = [getattr(trace, name).height for name in {tables}]
done = time.perf_counter()
assert cache.entries()
events, on_gpu = trace.info.events, trace.gpu.height
"""
_HTA = """
import logging, sys, time
from hta.common.trace import Trace
logging.disable(logging.CRITICAL)
before = used()
begun = time.perf_counter()
trace = Trace(trace_files={0: sys.argv[1]}, trace_dir="/")
trace.parse_traces(use_multiprocessing=False, use_memory_profiling=False)
done = time.perf_counter()
frame = trace.traces[0]
events, on_gpu = len(frame), int((frame["stream"] >= 0).sum())
"""
_TRACELENS = """
import contextlib, logging, os, sys, time
from TraceLens import TreePerfAnalyzer
logging.disable(logging.CRITICAL)
before = used()
begun = time.perf_counter()
with contextlib.redirect_stdout(None):
    analyzer = TreePerfAnalyzer.from_file(sys.argv[1])
done = time.perf_counter()
events = len(analyzer.tree.events)
gpu = ("kernel", "gpu_memcpy", "gpu_memset")
on_gpu = sum(event.get("cat") in gpu for event in analyzer.tree.events)
"""
_SIMDJSON = """
import ctypes, os, sys, time
from pathlib import Path
from graphviz_dash.ingest.byte_stream import ByteStream
from graphviz_dash.ingest.kineto.json_stream import ArrayReader
from graphviz_dash.ingest.limits import DEFAULT_LIMITS
library = ctypes.CDLL(os.environ["BENCHMARK_ONDEMAND"])
library.make.restype = ctypes.c_void_p
library.add.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
library.add.restype = library.rows.restype = ctypes.c_int64
library.rows.argtypes = [ctypes.c_void_p]
columns = library.make()
padding = b" " * 64
events = 0

def decoded(piece):
    global events
    found = library.add(columns, piece + padding, len(piece))
    if found < 0:
        raise UnicodeDecodeError("utf-8", b"", 0, 0, "not JSON")
    events += found
    return [None]

before = used()
begun = time.perf_counter()
with ByteStream(Path(sys.argv[1]), DEFAULT_LIMITS) as stream:
    for _ in ArrayReader(stream, "traceEvents", decoded, decoded, DEFAULT_LIMITS):
        pass
done = time.perf_counter()
on_gpu = 0
"""


@dataclass(frozen=True)
class Reader:
    """Interpreter and code that load a trace."""

    name: str
    python: str
    code: str
    """Between _BEFORE and _AFTER."""
    root: Path = ROOT
    """The checkout whose modules it imports, where the interpreter is this one."""


@dataclass(frozen=True)
class Load:
    """One load: wall-clock and CPU seconds, events or rows, those on the GPU, peak bytes of memory.
    ``ended``: seconds after which it was killed; nothing else is known then."""

    seconds: float
    cpu: float
    events: int
    on_gpu: int
    memory: int
    ended: bool = False


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        size = int(options.megabytes * MEGABYTE)
        trace = options.trace or made_trace(folder, size, options.source)
        size = json_bytes(trace)
        print(f"{platform.node() and platform.machine()}, {os.cpu_count()} cores, ", end="")
        print(f"Python {platform.python_version()}, {datetime.now(UTC):%Y-%m-%d}")
        print(f"trace: {trace.name}, {size / MEGABYTE:.1f} MB of JSON, ", end="")
        print(f"{trace.stat().st_size / MEGABYTE:.1f} MB on disk", flush=True)
        environment = {"BENCHMARK_CACHE": str(folder / "cache")}
        if options.simdjson:
            environment["BENCHMARK_ONDEMAND"] = str(_compiled(options.simdjson, folder))
        names = options.only.split(";") if options.only else ()
        readers = [one for one in _readers(options) if not names or one.name in names]
        loads: dict[str, list[Load]] = {reader.name: [] for reader in readers}
        for turn in range(options.repeats):
            for reader in readers:
                if turn and loads[reader.name][0].seconds > options.once_over:
                    continue
                loads[reader.name].append(_load(reader, trace, environment, options.end_after))
                if options.verbose:
                    print(reader.name, loads[reader.name][-1], flush=True)
        _tell(loads, size)
    return 0


def _readers(options: argparse.Namespace) -> Iterator[Reader]:
    for reader in _own_readers():
        yield reader
        if options.before:
            yield replace(reader, name=f"{reader.name}, before", root=options.before.resolve())
    if options.simdjson:
        yield Reader("simdjson on-demand", sys.executable, _SIMDJSON)
    if options.hta:
        yield Reader("HolisticTraceAnalysis", options.hta, _HTA)
    if options.tracelens:
        yield Reader("TraceLens", options.tracelens, _TRACELENS)


def _own_readers() -> Iterator[Reader]:
    yield Reader(OURS, sys.executable, _READ.format(options=""))
    yield _by_processes("one process", 1)
    for name, warm, tables in (
        ("reopened, all tables", _ALL_TABLES, _ALL_TABLES),
        ("reopened in a new process, all tables", (), _ALL_TABLES),
        ("reopened in a new process, the GPU's table", (), ("gpu",)),
    ):
        yield Reader(name, sys.executable, _REOPENED.format(warm=warm, tables=tables))


def _by_processes(name: str, processes: int) -> Reader:
    return Reader(name, sys.executable, _READ.format(options=f", processes={processes}"))


def read_in_new_process(trace: Path, processes: int) -> Load:
    return _load(_by_processes("ours", processes), trace, {})


def _compiled(simdjson: Path, folder: Path) -> Path:
    if simdjson.is_file():
        return simdjson.resolve()
    library = folder / "ondemand.so"
    source = Path(__file__).with_name("ondemand.cpp")
    flags = ["-O3", "-march=native", "-std=c++17", "-shared", "-fPIC", "-I", str(simdjson)]
    command = ["g++", *flags, str(source), str(simdjson / "simdjson.cpp"), "-o", str(library)]
    subprocess.run(command, check=True)
    return library


def _load(
    reader: Reader, trace: Path, extra_env: dict[str, str], end_after: float = math.inf
) -> Load:
    environment = os.environ | extra_env | {"PYTHONPATH": str(reader.root)}
    if reader.python != sys.executable:
        environment.pop("PYTHONPATH")
    command = [reader.python, "-c", _BEFORE + reader.code + _AFTER, str(trace)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        peak_bytes, was_ended = _most_memory(process, end_after)
        assert process.stdout is not None
        words = process.stdout.read().split()
    if was_ended is not None:
        return Load(was_ended - float(words[0]), math.nan, 0, 0, peak_bytes, ended=True)
    if process.returncode:
        raise SystemExit(f"{reader.name} ended with exit code {process.returncode}")
    seconds, cpu, events, on_gpu, memory = map(float, words[-5:])
    return Load(seconds, cpu, int(events), int(on_gpu), max(int(memory), peak_bytes))


def _most_memory(process: subprocess.Popen[str], end_after: float) -> tuple[int, float | None]:
    """Wait for a process; return the peak bytes of it and its children and, if it was killed, the
    time. Shared pages count once. 0 bytes except on Linux."""
    peak_bytes = 0
    limit = time.monotonic() + end_after
    while process.poll() is None:
        peak_bytes = max(peak_bytes, sum(map(_proportional_bytes, _family(process.pid))))
        if time.monotonic() > limit:
            process.kill()
            return peak_bytes, time.monotonic()
        time.sleep(_BETWEEN)
    return peak_bytes, None


def _family(pid: int) -> Iterator[int]:
    yield pid
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            children = Path(f"/proc/{pid}/task/{task}/children").read_text()
            for child in children.split():
                yield from _family(int(child))
    except OSError:  # it has ended
        return


def _proportional_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def _tell(loads: dict[str, list[Load]], size: int) -> None:
    our_median = statistics.median(load.seconds for load in loads[OURS]) if OURS in loads else None
    print("| reader | median (least to most) | CPU | MB/s | memory | events or rows | over ours |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, found in loads.items():
        seconds = sorted(load.seconds for load in found)
        median = statistics.median(seconds)
        memory = max(load.memory for load in found) / size
        than = "more than " if any(load.ended for load in found) else ""
        ratio_text = f"{than}{median / our_median:.2f}" if our_median else ""
        cpu = statistics.median(load.cpu for load in found)
        spread = f"({seconds[0]:.3f} to {seconds[-1]:.3f})"
        print(
            f"| {name}, {len(found)}x | {than}{median:.3f} s {spread} "
            f"| {cpu:.3f} s | {size / MEGABYTE / median:,.0f} | {memory:.2f} of the JSON "
            f"| {found[0].events:,} | {ratio_text} |"
        )


def made_trace(folder: Path, size: int, source: Path = SAMPLE) -> Path:
    """Copy ``source`` until there are ``size`` bytes of JSON, gzip-compressed and reproducible."""
    with gzip.open(source, "rb") as file:
        document = json.load(file)
    events = document.pop("traceEvents")
    slices = [event for event in events if "ts" in event]
    first = min(event["ts"] for event in slices)
    span = max(event["ts"] + event.get("dur", 0) for event in slices) - first + 1000
    step = 1 + max(
        value
        for event in events
        for name, value in event.get("args", {}).items()
        if name in IDS and isinstance(value, int)
    )
    fields = [f'"{key}": {json.dumps(value)}' for key, value in document.items()]
    path = folder / "made.json.gz"
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as out:
        out.write(("{\n  " + ",\n  ".join(fields) + ',\n  "traceEvents": [\n  ').encode())
        total = copy = 0
        while total < size:
            # Metadata once: threads keep their names.
            lines = [
                _laid_out(_shifted(event, span * copy, step * copy))
                for event in events
                if not copy or event.get("ph") != "M"
            ]
            text = ((",\n  " if copy else "") + ",\n  ".join(lines)).encode()
            total += out.write(text)
            copy += 1
        out.write(b"\n  ]\n}\n")
    return path


def _shifted(event: dict[str, Any], time: float, ids: int) -> dict[str, Any]:
    shifted_event = dict(event)
    if "ts" in shifted_event:
        shifted_event["ts"] = round(shifted_event["ts"] + time, 3)
    if "id" in shifted_event:
        shifted_event["id"] += ids
    if isinstance(shifted_event.get("args"), dict):
        shifted_event["args"] = {
            name: value + ids if name in IDS and isinstance(value, int) else value
            for name, value in shifted_event["args"].items()
        }
    return shifted_event


def _laid_out(event: dict[str, Any]) -> str:
    """One event on the lines on which Kineto writes it."""
    args = event.pop("args", None)
    head = json.dumps(event)[1:-1]
    if args is None:
        return f"{{\n    {head}\n  }}"
    return f'{{\n    {head},\n    "args": {{\n      {json.dumps(args)[1:-1]}\n    }}\n  }}'


def json_bytes(path: Path) -> int:
    """Size of the JSON in ``path``, decompressed."""
    if path.suffix != ".gz":
        return path.stat().st_size
    with gzip.open(path, "rb") as file:
        return sum(len(chunk) for chunk in iter(lambda: file.read(1 << 20), b""))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--trace", type=Path, help="a Kineto trace, .json or .json.gz")
    parser.add_argument("--source", type=Path, default=SAMPLE, help="what a made trace repeats")
    parser.add_argument("--megabytes", type=float, default=25, help="size of the made trace")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--once-over", type=float, default=60, help="seconds not to be repeated")
    parser.add_argument("--end-after", type=float, default=math.inf, help="seconds of a process")
    parser.add_argument("--hta", help="interpreter that has HolisticTraceAnalysis")
    parser.add_argument("--tracelens", help="interpreter that has TraceLens")
    parser.add_argument(
        "--simdjson", type=Path, help="folder of simdjson.h and .cpp, or ondemand.so"
    )
    parser.add_argument("--before", type=Path, help="checkout of an earlier version")
    parser.add_argument("--only", help="names of readers, as they are printed, by semicolons")
    parser.add_argument("--verbose", action="store_true", help="print each load")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
