from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from graphviz_dash.ingest.identity import compute_identity, measure_identity
from tests.builders import make_experiment, make_run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make_experiment(tmp_path / "toy")


def test_the_same_folder_has_the_same(path: Path) -> None:
    before = compute_identity(path)
    (path / ".graph.abc.staging").mkdir()
    (path / "notes.txt").write_text("mine", encoding="utf-8")
    assert compute_identity(path) == before
    assert compute_identity(path.parent / "other") != before
    assert compute_identity(path.parent / "gone") == compute_identity(path.parent / "nothing")


def test_a_folder_without_a_run_is_not_listed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link to the parent of 20,000 folders, of which an experiment may contain many."""
    (path / "circle").symlink_to("..")
    listed: list[bytes] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: listed.append(folder) or scandir(folder))
    compute_identity(path)
    assert listed
    assert not [folder for folder in listed if b"circle" in folder]


def test_a_run_that_arrives_or_goes_gives_another(path: Path) -> None:
    before = compute_identity(path)
    make_run(path, "compile")
    arrived = compute_identity(path)
    shutil.rmtree(path / "compile")
    assert compute_identity(path) == before != arrived


def test_a_run_that_is_replaced_gives_another(path: Path) -> None:
    before = compute_identity(path)
    manifest = path / "graph" / "manifest.json"
    status = manifest.stat()
    shutil.copytree(path / "graph", path / "new")
    shutil.rmtree(path / "graph")
    (path / "new").rename(path / "graph")
    # As an archive is unpacked: with the time that it says.
    os.utime(manifest, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert compute_identity(path) != before


def test_a_trace_that_grows_gives_another(path: Path) -> None:
    before = compute_identity(path)
    (trace, *_) = sorted((path / "graph" / "traces").iterdir())
    status = trace.stat()
    with trace.open("ab") as file:
        file.write(b" ")
    os.utime(trace, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert compute_identity(path) != before


def test_a_description_or_a_file_that_changes_gives_another(path: Path) -> None:
    digests = [compute_identity(path)]
    (path / "about.txt").write_text("mine", encoding="utf-8")
    digests.append(compute_identity(path))
    clean = path / "graph" / "clean.json"
    status = clean.stat()
    content = clean.read_bytes()
    clean.write_bytes(content[:-2] + b" }")
    os.utime(clean, ns=(status.st_atime_ns, status.st_mtime_ns))
    digests.append(compute_identity(path))
    assert len(set(digests)) == 3


def test_a_folder_is_settled_some_time_after_its_last_change(path: Path) -> None:
    identity = measure_identity(path)
    newest = max(file.stat().st_ctime_ns for file in path.glob("*/*") if file.is_file())
    assert identity.last_change_ns >= newest
    assert not identity.is_stable(newest + 1_000_000)
    assert identity.is_stable(newest + 60_000_000_000)


def test_dates_beyond_any_clock_and_names_that_are_not_utf8_have_a_digest(tmp_path: Path) -> None:
    run = make_run(tmp_path, "eager")
    before = compute_identity(tmp_path)
    odd = run / os.fsdecode(b"odd\xff")
    odd.write_text("x", encoding="utf-8")
    with suppress(OSError):  # a file system may keep smaller dates only
        os.utime(odd, ns=(2**68, 2**68))
    identity = measure_identity(tmp_path)
    assert identity.digest not in (before, b"")
    assert not identity.is_stable(0)
