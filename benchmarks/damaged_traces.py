"""Thousands of damaged variants of real traces: does each open, quickly, and tell its damage?

    python benchmarks/damaged_traces.py [FILES...] [--variants N] [--seed N] [--processes 1 2]

FILES are traces or folders of them; without any, the smallest sample traces. Each variant is plain,
gzip or zstd, and cut, or with flipped bytes or a zeroed, missing or repeated block. One process
reads it, or several (small traces in small pieces), without the sha256 check of a bundle. It counts
as

    refused            an error of one line
    incomplete         read up to the damage, which the trace tells
    another document   read without a word of damage, but still faultless JSON, with other values or
                       another number of events: nothing in the file says that it was changed
    shown as whole     the same, though the standard library's strict reader refuses the file, or
                       finds another number of events in it

A hang is a read of over 10 seconds of its processes' own time, or ten minutes by the clock; a crash
any other exception, a helping process that ended, or an error of several lines. Exit code 1 for a
hang, a crash or a variant shown as whole.
"""

from __future__ import annotations

import argparse
import collections
import functools
import gzip
import json
import os
import random
import resource
import sys
import tempfile
import time
import traceback
import zlib
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from graphviz_dash.errors import InputError  # noqa: E402
from graphviz_dash.ingest.byte_stream import ByteStream  # noqa: E402
from graphviz_dash.ingest.kineto import reader, workers  # noqa: E402
from graphviz_dash.ingest.kineto.reader import read_trace  # noqa: E402

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

HANG_SECONDS: Final = 10.0
STANDSTILL_SECONDS: Final = 600.0
PIECES: Final = 12
"""Minimum number of pieces of a trace."""
KINDS: Final = ("cut", "flip", "zeros", "lost", "twice")


def _zstd(text: bytes) -> bytes:
    """As the zstd program writes it, which adds a checksum."""
    return zstd.compress(text, options={zstd.CompressionParameter.checksum_flag: 1})


def damaged(data: bytes, kind: str, chance: random.Random) -> bytes:
    """``data`` with one damage, never equal to it."""
    content = bytearray(data)
    at = chance.randrange(1, len(content))
    length = min(len(content) - at, chance.choice((1, 16, 512, 4096, 65536)))
    if kind == "cut":
        del content[at:]
    elif kind == "flip":
        for _ in range(chance.choice((1, 1, 4, 64))):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    elif kind == "zeros":
        content[at : at + length] = bytes(length)
    elif kind == "lost":
        del content[at : at + length]
    else:
        content[at:at] = content[at : at + length]
    return bytes(content) if content != data else damaged(data, kind, chance)


def events_in(data: bytes) -> int | None:
    """Events that the standard library finds; None if it refuses the file."""
    try:
        if data.startswith(b"\x1f\x8b"):
            data = gzip.decompress(data)
        elif data.startswith(b"\x28\xb5\x2f\xfd"):
            data = zstd.decompress(data)
        document = json.loads(data)
        return len(document["traceEvents"])
    except (OSError, EOFError, zlib.error, zstd.ZstdError, ValueError, LookupError, TypeError):
        return None


def outcome(path: Path, data: bytes, processes: int) -> str:
    try:
        info = read_trace(path, processes=processes).info
    except InputError as error:
        return "refused" if str(error).isprintable() else "crash"
    if info.completeness_problems:
        return "incomplete"
    return "another document" if events_in(data) == info.events else "shown as whole"


def timed(pool: Executor, path: Path, data: bytes, processes: int) -> tuple[str, float, float]:
    """Return the outcome, wall-clock seconds and CPU seconds. A late poll counts as its planned
    interval, so that a stalled machine is not taken for a hang."""
    last, before, clock = time.perf_counter(), _spent(), 0.0
    reading = pool.submit(outcome, path, data, processes)
    while True:
        wait([reading], timeout=1)
        now = time.perf_counter()
        clock, last, cpu_s = clock + min(now - last, 2.0), now, _spent() - before
        if cpu_s > HANG_SECONDS or clock > STANDSTILL_SECONDS:
            return "hang", clock, cpu_s
        if reading.done():
            break
    if (error := reading.exception()) is None:
        return reading.result(), clock, cpu_s
    traceback.print_exception(error)
    return "crash", clock, cpu_s


def _spent() -> float:
    """CPU seconds of this process and its ended children."""
    usages = (
        resource.getrusage(resource.RUSAGE_SELF),
        resource.getrusage(resource.RUSAGE_CHILDREN),
    )
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _sources(options: argparse.Namespace) -> list[Path]:
    if not options.files:
        samples = ROOT.glob("sample_traces/**/traces/replay.json.gz")
        return sorted(samples, key=lambda path: path.stat().st_size)[: options.traces]
    return [
        one
        for folder in options.files
        for one in (sorted(folder.rglob("*.json.gz")) if folder.is_dir() else [folder])
    ]


def _forms(source: Path) -> list[tuple[str, bytes]]:
    """The trace plain, in gzip (its own bytes if it is) and in zstd."""
    packed_bytes = source.read_bytes()
    if not packed_bytes.startswith(b"\x1f\x8b"):
        packed_bytes = gzip.compress(packed_bytes)
    text = gzip.decompress(packed_bytes)
    return [("plain", text), ("gzip", packed_bytes), ("zstd", _zstd(text))]


def main() -> int:
    options = _options()
    sources = _sources(options)
    files = [one for source in sources for one in _forms(source)]
    smallest = min(len(text) for form, text in files if form == "plain")
    workers.MIN_PARALLEL_BYTES = 0  # type: ignore[misc]  # to share small traces too
    pieces = functools.partial(ByteStream, chunk_bytes=max(4096, smallest // PIECES))
    reader.ByteStream = pieces  # type: ignore[assignment,misc]
    chance = random.Random(options.seed)
    counts: collections.Counter[tuple[str, str, str]] = collections.Counter()
    slowest = max_s = 0.0
    start_time = time.perf_counter()
    # A future holds whatever the reader raised.
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as pool:
        path = Path(folder) / "damaged"
        for number in range(options.variants):
            if number % 1000 == 0:
                print(f"{number:,} variants read", file=sys.stderr)
            form, form_bytes = files[number % len(files)]
            turn = number // len(files)
            kind = KINDS[turn % len(KINDS)]
            processes = options.processes[turn // len(KINDS) % len(options.processes)]
            data = damaged(form_bytes, kind, chance)
            path.write_bytes(data)
            result, clock, cpu_s = timed(pool, path, data, processes)
            slowest, max_s = max(slowest, clock), max(max_s, cpu_s)
            counts[form, kind, result] += 1
            if result in FAULTS:
                kept = Path(options.keep or tempfile.gettempdir()) / f"damaged-{number}"
                kept.write_bytes(data)
                print(f"{result}: variant {number}, {form}, {kind}, {processes} processes: {kept}")
            if result == "hang":
                os._exit(1)  # the thread that reads cannot be ended
    print(f"{options.variants:,} variants of {len(sources)} traces, seed {options.seed}, ", end="")
    print(f"{datetime.now(UTC):%Y-%m-%d}, {time.perf_counter() - start_time:,.0f} s")
    print(f"slowest read, the standard library's check included: {slowest:.2f} s by the clock, ")
    print(f"{max_s:.2f} s of processor time")
    for form in ("plain", "gzip", "zstd"):
        for kind in KINDS:
            row = {r: n for (f, k, r), n in sorted(counts.items()) if (f, k) == (form, kind)}
            print(f"{form} {kind}: " + ", ".join(f"{n:,} {r}" for r, n in row.items()))
    faults = {fault: sum(n for (*_, r), n in counts.items() if r == fault) for fault in FAULTS}
    print(", ".join(f"{n} {fault}" for fault, n in faults.items()))
    return 1 if any(faults.values()) else 0


FAULTS: Final = ("hang", "crash", "shown as whole")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="*", type=Path, help="traces, or folders of them")
    parser.add_argument("--variants", type=int, default=3000)
    parser.add_argument("--traces", type=int, default=6, help="samples used, the smallest first")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2], help="in turns")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", help="folder for the variants with which something was wrong")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
