from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from graphviz_dash.ingest import summaries
from graphviz_dash.ingest.identity import Identity
from graphviz_dash.ingest.summaries import Summary, SummaryCache
from tests.faults import each_in_turn, failing_allocation, files_of_at_most

OLD = Identity(b"version 1", 1)
ROOT = Path("/data")


def summary(name: str = "a", content: bytes = b"{}", identity: Identity = OLD) -> Summary:
    return Summary(f"{ROOT}/{name}", identity, content)


@pytest.fixture
def cache(tmp_path: Path) -> SummaryCache:
    return SummaryCache(tmp_path / "cache")


def tamper(cache: SummaryCache, *statements: str) -> None:
    with closing(sqlite3.connect(cache.file)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()


def test_summaries_below_a_folder_are_loaded_by_kind(cache: SummaryCache) -> None:
    assert cache.load("card", ROOT) == {}
    cache.store("card", [summary(), summary("a/b"), Summary("/data0", OLD, b"0")])
    cache.store("listing", [summary(content=b"[]")])
    expected = {"/data/a": (b"version 1", b"{}"), "/data/a/b": (b"version 1", b"{}")}
    assert cache.load("card", ROOT) == expected
    assert cache.load("card", ROOT / "a") == expected
    assert cache.load("card", Path("/")).keys() == {*expected, "/data0"}
    assert cache.load("listing", ROOT) == {"/data/a": (b"version 1", b"[]")}


def test_summaries_of_chosen_folders_are_loaded(cache: SummaryCache) -> None:
    assert cache.load_some("card", ["/data/a"]) == {}
    cache.store("card", [summary(), summary("a/b")])
    assert cache.load_some("card", ["/data/a", "/data/c"]) == {"/data/a": (b"version 1", b"{}")}
    assert cache.load_some("listing", ["/data/a"]) == {}
    tamper(cache, "UPDATE summaries SET content = '[]'")
    assert cache.load_some("card", ["/data/a"]) == {}


def test_another_version_replaces_a_summary(cache: SummaryCache) -> None:
    cache.store("card", [summary()])
    cache.store("card", [summary(content=b"new", identity=Identity(b"version 2", 1))])
    assert cache.load("card", ROOT) == {"/data/a": (b"version 2", b"new")}


def test_a_folder_that_changed_just_now_is_not_stored(cache: SummaryCache) -> None:
    cache.store("card", [summary(identity=Identity(b"version 1", time.time_ns()))])
    assert cache.load("card", ROOT) == {}


def test_unlisted_folders_are_pruned(cache: SummaryCache) -> None:
    cache.store("card", [summary("a"), summary("b"), Summary("/other/c", OLD, b"{}")])
    cache.prune("card", ROOT, ["/data/b"])
    assert cache.load("card", Path("/")).keys() == {"/data/b", "/other/c"}


def test_names_that_are_not_utf8_are_stored(cache: SummaryCache) -> None:
    name = os.fsdecode(b"/data/\xff")
    cache.store("card", [Summary(name, OLD, b"{}")])
    assert cache.load("card", ROOT) == {name: (b"version 1", b"{}")}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE summaries SET content = CAST('{\"a\": 1}' AS BLOB)",
        "UPDATE summaries SET identity = CAST('version 2' AS BLOB)",
        "UPDATE summaries SET kind = 'card', folder = CAST('/data/b' AS BLOB)",
        "UPDATE summaries SET checksum = x'00'",
        "UPDATE summaries SET checksum = 5",
    ],
)
def test_a_row_that_was_changed_is_ignored(cache: SummaryCache, statement: str) -> None:
    cache.store("card", [summary()])
    tamper(cache, statement)
    assert cache.load("card", ROOT) == {}
    cache.store("card", [summary()])
    assert cache.load("card", ROOT)["/data/a"] == (b"version 1", b"{}")


@pytest.mark.parametrize(
    "statements",
    [
        ["UPDATE summaries SET content = 'text'"],
        ["UPDATE summaries SET identity = 7"],
        ["ALTER TABLE summaries RENAME TO others"],
        ["CREATE TRIGGER t AFTER INSERT ON summaries BEGIN DELETE FROM summaries; END"],
        ["DROP TABLE summaries", "CREATE VIEW summaries AS SELECT 1 AS kind, 2 AS folder"],
        ["DROP TABLE summaries", "CREATE TABLE summaries (kind, folder)"],
    ],
)
def test_a_file_with_other_content_is_replaced(cache: SummaryCache, statements: list[str]) -> None:
    cache.store("card", [summary()])
    tamper(cache, *statements)
    assert cache.load("card", ROOT) == {}
    cache.store("card", [summary("b")])
    assert cache.load("card", ROOT).keys() == {"/data/b"}


@pytest.mark.parametrize("damage", [b"junk" * 3000, b"SQLite format 3\0" + b"\xff" * 9000, b""])
def test_a_damaged_file_is_replaced(cache: SummaryCache, damage: bytes) -> None:
    cache.store("card", [summary()])
    cache.file.write_bytes(damage)
    assert cache.load("card", ROOT) == {}
    cache.store("card", [summary()])
    assert cache.load("card", ROOT).keys() == {"/data/a"}


def test_each_damaged_page_costs_summaries_only(cache: SummaryCache) -> None:
    rows = {f"/data/{number:03d}": (b"version 1", b"%d" % number * 50) for number in range(200)}
    stored = [Summary(name, OLD, content) for name, (_, content) in rows.items()]
    cache.store("card", stored)
    good = cache.file.read_bytes()
    for position in range(0, len(good), 997):
        cache.file.write_bytes(good[:position] + b"\xa5" * 40 + good[position + 40 :])
        cache.file.chmod(0o600)
        assert cache.load("card", ROOT).items() <= rows.items()
        cache.store("card", stored[:1])


@pytest.mark.skipif(os.name != "posix", reason="no accounts")
def test_a_cache_of_another_account_is_not_read(
    cache: SummaryCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.store("card", [summary()])
    for path, mode in ((cache.file, 0o666), (cache.file.parent, 0o777)):
        before = path.stat().st_mode
        path.chmod(mode)
        assert cache.load("card", ROOT) == {}
        path.chmod(before)
    assert cache.load("card", ROOT) != {}
    monkeypatch.setattr(summaries, "get_account", lambda: os.geteuid() + 1)
    assert cache.load("card", ROOT) == {}
    cache.store("card", [summary("b")])
    monkeypatch.undo()
    assert cache.load("card", ROOT).keys() == {"/data/a"}


def test_a_link_in_place_of_the_file_is_not_followed(cache: SummaryCache, tmp_path: Path) -> None:
    cache.store("card", [summary()])
    other = tmp_path / "other.sqlite"
    cache.file.rename(other)
    before = other.read_bytes()
    cache.file.symlink_to(other)
    assert cache.load("card", ROOT) == {}
    cache.store("card", [summary("b")])
    assert other.read_bytes() == before


@pytest.mark.parametrize("side", ["", "-journal", "-wal", "-shm"])
def test_pipes_and_folders_in_place_of_the_files_are_not_opened(
    cache: SummaryCache, side: str
) -> None:
    cache.store("card", [summary()])
    file = cache.file.with_name(cache.file.name + side)
    for make in (os.mkfifo, os.mkdir):
        file.unlink(missing_ok=True)
        make(file)
        assert cache.load("card", ROOT) == {}
        cache.store("card", [summary("b")])
        if make is os.mkdir:
            file.rmdir()


def test_a_file_of_a_later_sqlite_is_replaced_or_kept_unread(cache: SummaryCache) -> None:
    cache.store("card", [summary()])
    content = bytearray(cache.file.read_bytes())
    content[18] = content[19] = 9  # versions for writing and reading
    cache.file.write_bytes(content)
    assert cache.load("card", ROOT) == {}
    cache.store("card", [summary("b")])
    assert cache.load("card", ROOT).keys() <= {"/data/b"}


def test_a_locked_cache_costs_its_time_limit_only(
    cache: SummaryCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summaries, "_TIMEOUT_S", 0.05)
    cache.store("card", [summary()])
    with closing(sqlite3.connect(cache.file, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        assert cache.load("card", ROOT) == {}
        cache.store("card", [summary("b")])
        holder.execute("ROLLBACK")
    assert cache.load("card", ROOT).keys() == {"/data/a"}


def test_files_of_earlier_versions_are_removed(
    cache: SummaryCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "cache" / "summary.txt"
    other.parent.mkdir(mode=0o700)
    other.write_text("mine", encoding="utf-8")
    for number in range(6):
        monkeypatch.setattr(summaries, "_compute_program_digest", lambda n=number: f"{n}")
        SummaryCache(other.parent).store("card", [summary()])
        os.utime(SummaryCache(other.parent).file, (number, number))
    left = sorted(path.name for path in other.parent.iterdir())
    assert left == [*(f"summaries-{number}.sqlite" for number in range(2, 6)), "summary.txt"]
    assert SummaryCache(other.parent).clear() > 0
    assert [path.name for path in other.parent.iterdir()] == ["summary.txt"]


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("", encoding="utf-8")
    cache = SummaryCache(in_the_way / "cache")
    cache.store("card", [summary()])
    cache.prune("card", ROOT, [])
    assert cache.load("card", ROOT) == {}
    assert cache.clear() == 0


def test_a_full_disk_is_no_error(cache: SummaryCache) -> None:
    cache.store("card", [summary()])
    for size in (0, 512, 5_000):
        with files_of_at_most(size):
            cache.store("card", [summary(f"{n}", b"x" * 9_000) for n in range(5)])
    assert cache.load("card", ROOT).keys() >= {"/data/a"}


def test_each_allocation_that_fails_leaves_a_usable_cache(cache: SummaryCache) -> None:
    cache.store("card", [summary()])

    def use() -> dict[str, tuple[bytes, bytes]]:
        cache.store("card", [summary()])
        return cache.load("card", ROOT)

    whole = use()
    outcomes = list(each_in_turn(failing_allocation, use))
    assert len(outcomes) > 10
    assert all(outcome in ({}, whole) or isinstance(outcome, MemoryError) for outcome in outcomes)
    assert use() == whole


WRITER = """
import sys
from pathlib import Path
from graphviz_dash.ingest.identity import Identity
from graphviz_dash.ingest.summaries import Summary, SummaryCache
cache = SummaryCache(Path(sys.argv[1]))
for number in range(int(sys.argv[3])):
    name = f"/data/{sys.argv[2]}-{number}"
    cache.store("card", [Summary(name, Identity(b"1", 1), b"x" * 500)])
    print(number, flush=True)
"""


def write_in_process(folder: Path, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), name, str(count)],
        stdout=subprocess.PIPE,
        text=True,
    )


def test_concurrent_writers_lose_nothing(tmp_path: Path) -> None:
    writers = [write_in_process(tmp_path / "cache", name, 40) for name in "ab"]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    loaded = SummaryCache(tmp_path / "cache").load("card", ROOT)
    assert loaded.keys() == {f"/data/{name}-{n}" for name in "ab" for n in range(40)}


def test_a_killed_writer_leaves_complete_summaries(tmp_path: Path) -> None:
    writer = write_in_process(tmp_path / "cache", "a", 100_000)
    assert writer.stdout is not None
    for _ in range(20):
        last = int(writer.stdout.readline())
    writer.kill()
    writer.wait()
    cache = SummaryCache(tmp_path / "cache")
    cache.store("card", [summary("b")])
    loaded = cache.load("card", ROOT)
    assert loaded.keys() >= {"/data/b", *(f"/data/a-{number}" for number in range(last + 1))}
    assert set(loaded.values()) == {(b"1", b"x" * 500), (b"version 1", b"{}")}
