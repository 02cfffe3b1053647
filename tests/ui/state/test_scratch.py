from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from graphviz_dash.ui.state.scratch import Scratch, remove_scratch_of_killed

KILLED = """
import os, signal
from graphviz_dash.ui.state.scratch import SCRATCH
(SCRATCH.create_subfolder("uploads") / "trace.json").write_text("{}")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_is_this_users_alone_and_goes_with_all_that_is_in_it(temporary: Path) -> None:
    scratch = Scratch()
    folder = scratch.create_subfolder("uploads")
    assert folder == scratch.create_subfolder("uploads")
    assert scratch.folder.stat().st_mode & 0o077 == 0
    (folder / "trace.json").write_text("{}", encoding="utf-8")
    scratch.remove()
    assert list(temporary.iterdir()) == []
    scratch.remove()


def test_the_next_server_removes_files_of_a_killed_one(temporary: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", KILLED], env={"TMPDIR": str(temporary)}, check=False, timeout=60
    )
    (left,) = temporary.iterdir()
    living = Scratch()
    (living.folder / "mine").mkdir()
    other = temporary / ".other.abc.staging"
    other.mkdir()
    remove_scratch_of_killed()
    assert not left.exists()
    assert (living.folder / "mine").is_dir()
    assert other.is_dir()
    living.remove()


def test_paths_of_uploads_are_shown_as_their_visitor_knows_them() -> None:
    scratch = Scratch()
    assert scratch.hide_paths("/tmp/a: missing") == "/tmp/a: missing"
    visitor = scratch.create_subfolder("uploads") / ("0f" * 16)
    cases = {
        f"{visitor}/toy/graph/clean.json: 7 bytes": "toy/graph/clean.json: 7 bytes",
        f"{visitor}/.reading-x_1/files/a.json: no": "a.json: no",
        f"Use {visitor}/.reading-x_1/experiment instead.": "Use the upload instead.",
        f"Use {visitor}/.reading-x_1 instead.": "Use the upload instead.",
        f"in {visitor} and {visitor}/toy": "in the upload and toy",
        f"{scratch.folder}x/a": f"{scratch.folder}x/a",
    }
    try:
        assert {text: scratch.hide_paths(text) for text in cases} == cases
    finally:
        scratch.remove()
