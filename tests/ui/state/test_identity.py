"""What gives the folder of an experiment another identity, and what does not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from graphviz_dash.ui.state.identity import identity_of
from tests.builders import make_experiment, make_run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make_experiment(tmp_path / "toy")


def test_the_same_folder_has_the_same(path: Path) -> None:
    before = identity_of(path)
    (path / ".graph.abc.staging").mkdir()
    (path / "notes.txt").write_text("mine", encoding="utf-8")
    assert identity_of(path) == before
    assert identity_of(path.parent / "other") != before
    assert identity_of(path.parent / "gone") == identity_of(path.parent / "nothing")


def test_a_run_that_arrives_or_goes_gives_another(path: Path) -> None:
    before = identity_of(path)
    make_run(path, "compile")
    arrived = identity_of(path)
    shutil.rmtree(path / "compile")
    assert identity_of(path) == before != arrived


def test_a_run_that_is_replaced_gives_another(path: Path) -> None:
    before = identity_of(path)
    manifest = path / "graph" / "manifest.json"
    status = manifest.stat()
    shutil.copytree(path / "graph", path / "new")
    shutil.rmtree(path / "graph")
    (path / "new").rename(path / "graph")
    # As an archive is unpacked: with the time that it says.
    os.utime(manifest, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert identity_of(path) != before


def test_a_trace_that_grows_gives_another(path: Path) -> None:
    before = identity_of(path)
    (trace, *_) = sorted((path / "graph" / "traces").iterdir())
    status = trace.stat()
    with trace.open("ab") as file:
        file.write(b" ")
    os.utime(trace, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert identity_of(path) != before
