from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from graphviz_dash.ingest import cache as module
from graphviz_dash.ingest.cache import TraceCache, open_trace
from graphviz_dash.ingest.kineto.reader import read_trace
from tests.forked import get_fork_server
from tests.ingest.test_cache import SAMPLE, assert_same

# Stands still, and says so, when the file of that number is written by half.
BY_HALF = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background has none
from pathlib import Path
import polars as pl
from graphviz_dash.ingest import cache

left = int(sys.argv[3])
real = pl.DataFrame.write_parquet

def by_half(frame, file):
    global left
    left -= 1
    real(frame, file)
    if not left:
        whole = os.path.getsize(file)
        os.truncate(file, whole // 2)
        print("by half", flush=True)
        for _ in range(2_000):  # an interrupt just before a read would not end that
            time.sleep(0.05)
        raise SystemExit("nobody ended this process")

pl.DataFrame.write_parquet = by_half
cache.MIN_CACHED_EVENTS = 1
cache.open_trace(Path(sys.argv[1]), cache=cache.TraceCache(Path(sys.argv[2])))
"""
# Says so when Polars is about to write a table that takes it a second.
IN_POLARS = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background has none
from pathlib import Path
import polars as pl
from graphviz_dash.ingest import cache

large = pl.DataFrame({"x": pl.int_range(20_000_000, eager=True).hash()})
real = pl.DataFrame.write_parquet

def large_one(frame, file):
    print("writing", flush=True)
    real(large, file)
    for _ in range(2_000):
        time.sleep(0.05)

pl.DataFrame.write_parquet = large_one
cache.MIN_CACHED_EVENTS = 1
cache.open_trace(Path(sys.argv[1]), cache=cache.TraceCache(Path(sys.argv[2])))
"""
FILES = 6  # five tables, and where events stand in the file


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_CACHED_EVENTS", 1)


def ended(script: str, folder: Path, *more: str, how: signal.Signals, after: float = 0) -> int:
    """The exit code of a process that was sent a signal so many seconds after it said a line."""
    server = get_fork_server("polars", "graphviz_dash.ingest.cache")
    reader, writer = os.pipe()
    with (
        open(reader) as said,
        open(writer, "wb") as output,
        open(os.devnull, "wb") as errors,
        server.start(script, SAMPLE, folder, *more, stdout=output, stderr=errors) as process,
    ):
        output.close()
        assert said.readline()
        time.sleep(after)
        os.kill(process.pid, how)
        return process.wait()


@pytest.mark.parametrize("number", [1, FILES])
def test_an_interrupt_leaves_nothing(tmp_path: Path, number: int) -> None:
    assert ended(BY_HALF, tmp_path, str(number), how=signal.SIGINT) == -signal.SIGINT
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_while_polars_writes_leaves_nothing(tmp_path: Path) -> None:
    """One signal is two interrupts then: that of Polars, and Python's in what cleans up."""
    assert ended(IN_POLARS, tmp_path, how=signal.SIGINT, after=0.2) == -signal.SIGINT
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [1, FILES])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_process_leaves_no_entry_and_what_it_leaves_is_removed(
    tmp_path: Path, number: int, how: signal.Signals
) -> None:
    assert ended(BY_HALF, tmp_path, str(number), how=how) == -how
    (left,) = tmp_path.iterdir()
    assert len(list(left.iterdir())) == number
    cache = TraceCache(tmp_path)
    assert cache.list_entries() == []

    first = open_trace(SAMPLE, cache=cache)
    assert_same(first, read_trace(SAMPLE))
    (kept,) = cache.list_entries()
    assert_same(open_trace(SAMPLE, cache=cache), first)
    assert left.exists()  # for all that this process knows, another one is writing there still

    hours_ago = time.time() - 2 * 3600
    os.utime(left, (hours_ago, hours_ago))
    cache.store("f" * 40, first)
    assert {entry.name for entry in tmp_path.iterdir()} == {kept.key, "f" * 40}
