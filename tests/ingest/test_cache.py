from __future__ import annotations

import dataclasses
import gzip
import os
import pickle
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from msgspec.structs import replace

from graphviz_dash.bundle.write import compute_sha256
from graphviz_dash.errors import InputError
from graphviz_dash.ingest import cache as module
from graphviz_dash.ingest import cache_entry as entries
from graphviz_dash.ingest import load
from graphviz_dash.ingest.cache import (
    TraceCache,
    find_damaged,
    get_default_cache,
    open_trace,
)
from graphviz_dash.ingest.cache_folder import CACHE_VARIABLE
from graphviz_dash.ingest.kineto.columns import SCHEMAS
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.trace import Trace
from tests.builders import TraceBuilder, make_run, replay_trace
from tests.ingest.kineto.raw_events import read_raw_event

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "sample_traces/fork-join/graph/traces/replay.json.gz"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even small traces are worth keeping here."""
    monkeypatch.setattr(module, "MIN_CACHED_EVENTS", 1)


@pytest.fixture
def cache(tmp_path: Path) -> TraceCache:
    return TraceCache(tmp_path / "cache")


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that are parsed from now on."""
    seen: list[Path] = []
    real = module.read_trace

    def counting(path: Path, limits: Limits = DEFAULT_LIMITS, **options: Any) -> Trace:
        seen.append(path)
        return real(path, limits, **options)

    monkeypatch.setattr(module, "read_trace", counting)
    return seen


def assert_same(one: Trace, other: Trace) -> None:
    assert one.info == other.info
    assert one.offsets is not None
    assert other.offsets is not None
    assert one.offsets.pieces.equals(other.offsets.pieces)
    for name in SCHEMAS:
        mine, theirs = getattr(one, name), getattr(other, name)
        assert mine.schema == theirs.schema
        assert mine.equals(theirs)
        assert one.offsets.rows[name].equals(other.offsets.rows[name])


def test_places_outlive_the_entry_that_they_are_read_from(cache: TraceCache) -> None:
    first = open_trace(SAMPLE, cache=cache)
    again = open_trace(SAMPLE, cache=cache)
    cache.clear()
    assert first.offsets is not None
    assert again.offsets is not None
    assert again.offsets.rows["gpu"].equals(first.offsets.rows["gpu"])
    assert read_raw_event(again, "runtime", 2) == read_raw_event(first, "runtime", 2)
    with pytest.raises(KeyError):
        read_raw_event(again, "nothing", 0)


def test_tables_outlive_the_entry_that_they_are_read_from(
    cache: TraceCache, parses: list[Path]
) -> None:
    first = open_trace(SAMPLE, cache=cache)
    again = open_trace(SAMPLE, cache=cache)
    copy = pickle.loads(pickle.dumps(open_trace(SAMPLE, cache=cache)))
    assert again.gpu.equals(first.gpu)
    cache.clear()
    assert_same(first, again)
    assert_same(first, dataclasses.replace(copy))
    assert parses == [SAMPLE, SAMPLE, SAMPLE]
    with pytest.raises(AttributeError):
        again.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_tables_of_two_files_never_mix(tmp_path: Path, cache: TraceCache) -> None:
    path = tmp_path / "replay.json.gz"
    path.write_bytes(SAMPLE.read_bytes())
    open_trace(path, cache=cache)
    again = open_trace(path, cache=cache)
    cache.clear()
    replay_trace().write(path)
    with pytest.raises(InputError, match="a different trace from the one opened"):
        again.gpu  # noqa: B018


def test_a_trace_is_parsed_once(cache: TraceCache, parses: list[Path]) -> None:
    first = open_trace(SAMPLE, cache=cache)
    again = open_trace(SAMPLE, cache=cache)
    assert parses == [SAMPLE]
    assert_same(first, again)
    assert read_raw_event(again, "gpu", 3) == read_raw_event(first, "gpu", 3)
    (kept,) = cache.list_entries()
    assert (kept.path, kept.events) == (SAMPLE.resolve(), first.info.events)
    assert (cache.folder.stat().st_mode & 0o77) == 0


def test_a_trace_that_is_not_whole_stays_so(tmp_path: Path, cache: TraceCache) -> None:
    path = tmp_path / "cut.json.gz"
    path.write_bytes(SAMPLE.read_bytes()[:-3_000])
    first = open_trace(path, cache=cache)
    assert first.info.completeness_problems
    assert_same(first, open_trace(path, cache=cache))


def test_a_rewritten_file_is_parsed_again(
    tmp_path: Path, cache: TraceCache, parses: list[Path]
) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(replay_trace(steps=2).text().encode()))
    before = open_trace(path, cache=cache)
    path.write_bytes(gzip.compress(replay_trace(steps=5).text().encode()))
    after = open_trace(path, cache=cache)
    assert len(parses) == 2
    assert len(after.gpu) > len(before.gpu)


def test_contents_a_manifest_vouches_for_are_known_wherever_they_lie(
    tmp_path: Path, cache: TraceCache, parses: list[Path]
) -> None:
    copy = tmp_path / "copy.json.gz"
    copy.write_bytes(SAMPLE.read_bytes())
    open_trace(SAMPLE, cache=cache, sha256=compute_sha256(SAMPLE))
    moved = open_trace(copy, cache=cache, sha256=compute_sha256(SAMPLE))
    assert parses == [SAMPLE]
    assert moved.info.source == "copy.json.gz"
    assert read_raw_event(moved, "gpu", 0).fields["ph"] == "X"
    open_trace(copy, cache=cache, sha256="1" * 64)
    assert len(parses) == 2


def test_no_entry_is_stored_under_a_hash_that_the_bytes_do_not_have(
    tmp_path: Path, cache: TraceCache
) -> None:
    forged = tmp_path / "forged.json.gz"
    forged.write_bytes(gzip.compress(replay_trace(steps=2).text().encode()))
    claimed = compute_sha256(SAMPLE)
    open_trace(forged, cache=cache, sha256=claimed)
    expected = len(read_trace(SAMPLE).gpu)
    assert len(open_trace(SAMPLE, cache=cache, sha256=claimed).gpu) == expected
    # An entry that is damaged while the file has changed is not replaced by the new content either.
    copy = tmp_path / "copy.json.gz"
    shutil.copy(SAMPLE, copy)
    opened = open_trace(copy, cache=cache, sha256=claimed)
    copy.write_bytes(forged.read_bytes())
    (entry,) = cache.list_entries()
    (cache.folder / entry.key / "gpu.parquet").write_bytes(b"")
    with pytest.raises(InputError, match="changed while it was open"):
        assert opened.gpu is not None
    assert len(open_trace(SAMPLE, cache=cache, sha256=claimed).gpu) == expected


def test_other_limits_and_another_version_are_other_entries(
    cache: TraceCache, parses: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    open_trace(SAMPLE, cache=cache)
    with pytest.raises(InputError, match="limit events"):
        open_trace(SAMPLE, Limits(events=5), cache=cache)
    monkeypatch.setattr(module, "__version__", "999")
    open_trace(SAMPLE, cache=cache)
    assert len(parses) == 3


@pytest.mark.parametrize("file", ["gpu.parquet", "pieces.parquet", "info.json"])
@pytest.mark.parametrize("damage", ["cut", "gone", "zeros"])
def test_a_damaged_entry_is_made_again(
    cache: TraceCache, parses: list[Path], file: str, damage: str
) -> None:
    first = open_trace(SAMPLE, cache=cache)
    (kept,) = cache.list_entries()
    path = cache.folder / kept.key / file
    size = path.stat().st_size
    if damage == "gone":
        path.unlink()
    elif damage == "cut":
        os.truncate(path, size // 2)
    else:
        path.write_bytes(bytes(size))
    assert_same(first, open_trace(SAMPLE, cache=cache))
    assert len(parses) == 2
    assert_same(first, open_trace(SAMPLE, cache=cache))


def test_an_entry_at_which_polars_gives_up_is_made_again(
    cache: TraceCache, parses: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = open_trace(SAMPLE, cache=cache)

    def giving_up(*_: object, **__: object) -> None:
        raise pl.exceptions.PanicException("index out of bounds")

    with monkeypatch.context() as patched:
        patched.setattr(pl, "read_parquet", giving_up)
        assert_same(open_trace(SAMPLE, cache=cache), first)
    assert len(parses) == 2


def test_a_flipped_bit_never_changes_a_table(
    cache: TraceCache, parses: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    first = open_trace(SAMPLE, cache=cache)
    (entry,) = cache.list_entries()
    random = Random(7)
    for file in sorted((cache.folder / entry.key).iterdir()):
        for _ in range(6):
            whole = file.read_bytes()
            bit = random.randrange(8 * len(whole))
            damaged = bytearray(whole)
            damaged[bit // 8] ^= 1 << bit % 8
            file.write_bytes(damaged)
            parses.clear()
            caplog.clear()
            assert_same(first, open_trace(SAMPLE, cache=cache))
            assert parses == [SAMPLE], (file.name, bit)
            assert "are damaged" in caplog.text
            assert file.name in caplog.text
            assert_same(first, open_trace(SAMPLE, cache=cache))
            assert parses == [SAMPLE]  # the entry was made anew
    assert find_damaged(SAMPLE.parent) == (SAMPLE.resolve(),)
    assert find_damaged(cache.folder) == ()


FULL_DISK = """
import sys
from pathlib import Path
from graphviz_dash.ingest import cache

cache.MIN_CACHED_EVENTS = 1
trace = cache.open_trace(Path(sys.argv[1]), cache=cache.TraceCache(Path(sys.argv[2])))
print(trace.gpu.height)
"""


@pytest.mark.parametrize("size", [0, 4_096, 16_384])
def test_a_full_disk_is_no_error(tmp_path: Path, size: int) -> None:
    """Limit files to ``size``, so that the tables fail at a different point each time; the engine
    raises another error.
    """

    def without_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    ended = subprocess.run(
        # Compiled modules would be cut off too, and break every later import of them.
        [sys.executable, "-B", "-c", FULL_DISK, SAMPLE, tmp_path / "cache"],
        preexec_fn=without_room,  # nothing but a system call
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert ended.stderr == ""
    assert int(ended.stdout) > 0
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_file_system_without_room_is_no_error(tmp_path: Path) -> None:
    folder = tmp_path / "full"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8k", "none", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, check=False, stderr=-3).returncode:
        pytest.skip("only root may mount a small file system")
    try:
        assert open_trace(SAMPLE, cache=TraceCache(folder / "cache")).gpu.height
        assert TraceCache(folder / "cache").list_entries() == []
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupt_leaves_nothing_by_halves(
    cache: TraceCache, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(entries.msgspec.json, "encode", interrupted)  # after the tables
        if error is KeyboardInterrupt:
            with pytest.raises(KeyboardInterrupt):
                open_trace(SAMPLE, cache=cache)
        else:
            assert open_trace(SAMPLE, cache=cache).info.events
    assert list(cache.folder.iterdir()) == []


def test_the_bound_holds_and_the_last_used_stay(tmp_path: Path, cache: TraceCache) -> None:
    paths = []
    for number in range(4):
        trace = TraceBuilder()
        trace.op(f"op {number}", 0, 10)
        paths.append(trace.write(tmp_path / f"{number}.json"))
        open_trace(paths[-1], cache=cache)
        for kept in cache.list_entries():
            if kept.path.name == f"{number}.json":
                os.utime(cache.folder / kept.key, (1_000 + number, 1_000 + number))
    sizes = [kept.size for kept in cache.list_entries()]
    open_trace(paths[0], cache=cache)  # used now
    small = replace_bound(cache, sum(sizes[:2]) + 100)
    small.store("f" * 40, open_trace(SAMPLE, cache=None))
    assert {kept.path.name for kept in small.list_entries()} <= {SAMPLE.name, "0.json"}
    assert sum(kept.size for kept in small.list_entries()) <= small.max_bytes


def replace_bound(cache: TraceCache, most_bytes: int) -> TraceCache:
    return TraceCache(cache.folder, most_bytes)


def test_clearing_touches_nothing_else(cache: TraceCache) -> None:
    open_trace(SAMPLE, cache=cache)
    foreign = cache.folder / "precious"
    foreign.mkdir()
    (cache.folder / ".staging-old").mkdir()
    assert cache.clear() > 0
    assert list(cache.folder.iterdir()) == [foreign]


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    broken = TraceCache(file / "cache")
    assert open_trace(SAMPLE, cache=broken).info.events
    assert broken.list_entries() == []
    assert broken.clear() == 0


def test_small_traces_are_not_kept(cache: TraceCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_CACHED_EVENTS", 1_000_000)
    open_trace(SAMPLE, cache=cache)
    assert cache.list_entries() == []


def test_the_cache_folder_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def folder() -> Path | None:
        found = get_default_cache()
        return found and found.folder

    monkeypatch.setenv(CACHE_VARIABLE, "off")
    assert folder() is None
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "here"))
    assert folder() == tmp_path / "here"
    monkeypatch.delenv(CACHE_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert folder() == tmp_path / "graphviz-dash/traces"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored, says the specification
    monkeypatch.setenv("HOME", str(tmp_path))
    assert folder() == tmp_path / ".cache/graphviz-dash/traces"


def test_runs_use_it_except_temporary_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parses: list[Path]
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    run = make_run(tmp_path / "toy", "graph")
    load_run(run)
    assert not (tmp_path / "cache").exists()
    monkeypatch.setattr(load.tempfile, "gettempdir", lambda: "/nowhere")
    first = load_run(run)
    parsed = len(parses)
    second = load_run(run)
    assert len(parses) == parsed
    assert first.replay_trace is not None
    assert second.replay_trace is not None
    assert_same(first.replay_trace, second.replay_trace)
    assert replace(first, capture_trace=None, replay_trace=None) == replace(
        second, capture_trace=None, replay_trace=None
    )
