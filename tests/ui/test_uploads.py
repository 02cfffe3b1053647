"""Uploaded experiments: unpacked into a private folder, or refused with nothing left."""

from __future__ import annotations

import io
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.ui import uploads
from graphviz_dash.ui.uploads import Uploads
from tests.builders import make_experiment


@pytest.fixture
def made(tmp_path: Path) -> Path:
    make_experiment(tmp_path / "toy")
    return tmp_path / "toy"


@pytest.fixture
def store() -> Uploads:
    return Uploads()


def packed(
    folder: Path, below: str = "toy", change: Callable[[zipfile.ZipFile], None] | None = None
) -> io.BytesIO:
    """A zip file of an experiment's folder, as `zip -r` makes it."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, Path(below) / file.relative_to(folder))
        if change:
            change(archive)
    content.seek(0)
    return content


def refused(store: Uploads, content: io.BytesIO, match: str, name: str = "x.zip") -> None:
    with pytest.raises(InputError, match=match) as caught:
        store.add(name, content)
    assert "\n" not in str(caught.value)
    assert list(store.folder.iterdir()) == []


def test_an_experiment_is_opened(store: Uploads, made: Path) -> None:
    path = store.add("upload.zip", packed(made))
    assert path.parent == store.folder
    assert path.name == "toy"
    assert [run.name for run in load_experiment(path).runs] == ["eager", "graph"]
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    again = store.add("upload.zip", packed(made))
    assert again.name == "toy-2"


def test_runs_at_the_top_are_called_after_the_file(store: Uploads, made: Path) -> None:
    assert store.add("my run.zip", packed(made, ".")).name == "my-run"


@pytest.mark.parametrize(
    "name",
    ["../../evil.json", "/etc/evil.json", "toy/graph/../../../evil.json", "toy\\..\\evil.json"],
)
def test_paths_lead_nowhere_else(store: Uploads, made: Path, name: str) -> None:
    path = store.add("x.zip", packed(made, change=lambda archive: archive.writestr(name, "{}")))
    everything = [file for file in store.folder.rglob("*") if file.is_file()]
    assert all(file.is_relative_to(path) for file in everything)
    assert not [file for file in everything if "evil" in file.name]
    assert not (store.folder.parent / "evil.json").exists()


def test_a_link_in_the_archive_is_no_link(store: Uploads, made: Path) -> None:
    def link(archive: zipfile.ZipFile) -> None:
        info = zipfile.ZipInfo("toy/graph/graphs/extra.json")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")

    path = store.add("x.zip", packed(made, change=link))
    assert not any(file.is_symlink() for file in path.rglob("*"))


def test_a_bomb_is_stopped_while_unpacking(
    store: Uploads, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "MAX_UNPACKED_BYTES", 1 << 20)

    def bomb(archive: zipfile.ZipFile) -> None:
        archive.writestr("toy/graph/graphs/zeros.json", b"0" * (8 << 20))

    refused(store, packed(made, change=bomb), "more when unpacked")


def test_too_many_entries(store: Uploads, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "MAX_MEMBERS", 3)
    refused(store, packed(made), "at most 3")


@pytest.mark.parametrize("content", [b"", b"PK", b"not a zip", b"\x1f\x8b" + b"\0" * 40])
def test_what_is_no_zip_file(store: Uploads, content: bytes) -> None:
    refused(store, io.BytesIO(content), "not a readable zip file")


def test_a_cut_archive(store: Uploads, made: Path) -> None:
    whole = packed(made).getvalue()
    refused(store, io.BytesIO(whole[: len(whole) // 2]), "not a readable zip file")


def test_no_run_in_it(store: Uploads, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "readme.txt").write_text("hello")
    refused(store, packed(tmp_path / "other"), "no manifest.json")


def test_two_experiments(store: Uploads, made: Path) -> None:
    def another(archive: zipfile.ZipFile) -> None:
        for file in made.rglob("*.json"):
            archive.write(file, Path("other") / file.relative_to(made))

    refused(store, packed(made, change=another), "runs in 2 folders")


def test_a_damaged_run(store: Uploads, made: Path) -> None:
    (made / "graph" / "clean.json").write_bytes(b"[]")
    refused(store, packed(made), r"clean\.json")
