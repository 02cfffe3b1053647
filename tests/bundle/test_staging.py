from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.bundle.staging import STAGING_SUFFIX, Staging, remove_abandoned_folders

pytest.importorskip("fcntl", reason="needs flock")


def test_a_folder_in_use_is_no_leftover(tmp_path: Path) -> None:
    with Staging(tmp_path, "run") as staging:
        (staging.path / "part").write_text("x")
        assert remove_abandoned_folders(tmp_path) == ()
        assert (staging.path / "part").exists()
    assert list(tmp_path.iterdir()) == []


def test_only_our_folders_without_an_owner_are_removed(tmp_path: Path) -> None:
    abandoned = tmp_path / f".run.abc{STAGING_SUFFIX}"
    abandoned.mkdir()
    (abandoned / "part").write_bytes(bytes(1000))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / f".link{STAGING_SUFFIX}").symlink_to(elsewhere)
    (tmp_path / f".file{STAGING_SUFFIX}").write_text("mine")
    (tmp_path / ".cache").mkdir()
    (leftover,) = remove_abandoned_folders(tmp_path)
    assert (leftover.path, leftover.bytes) == (abandoned, 1000)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".cache",
        f".file{STAGING_SUFFIX}",
        f".link{STAGING_SUFFIX}",
        "elsewhere",
    ]
