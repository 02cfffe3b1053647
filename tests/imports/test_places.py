"""Files by what a person types: paths, folders and addresses, here in fsspec's memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from graphviz_dash.errors import InputError, MissingRequirementError
from graphviz_dash.imports.places import Place, fetch, find_places, is_address, local_copy


@pytest.fixture
def memory() -> Iterator[fsspec.AbstractFileSystem]:
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()
    system.pseudo_dirs[:] = [""]


def test_what_is_an_address() -> None:
    assert is_address("s3://bucket/a")
    assert is_address("memory://a")
    assert not is_address("file:///a")
    assert not is_address("a/b")
    assert not is_address("C:\\a")


def test_folders_are_searched_and_bundles_are_one(tmp_path: Path) -> None:
    (tmp_path / "deep" / "run").mkdir(parents=True)
    (tmp_path / ".hidden").mkdir()
    for name in ("a.json", "deep/b.json", "deep/run/manifest.json", "deep/run/x.json", ".hidden/c"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "a.json")
    found = find_places([str(tmp_path)])
    assert found == [
        Place(f"{tmp_path}/a.json"),
        Place(f"{tmp_path}/deep/b.json"),
        Place(f"{tmp_path}/deep/run", bundle=True),
    ]


def test_an_address_is_searched_the_same(memory: fsspec.AbstractFileSystem) -> None:
    for name in ("/t/a.json", "/t/run/manifest.json", "/t/run/clean.json", "/t/.x/c"):
        memory.pipe_file(name, b"{}")
    assert find_places(["memory://t"]) == [
        Place("memory://t/run", bundle=True),
        Place("memory://t/a.json"),
    ]
    assert find_places(["memory://t/a.json"]) == [Place("memory://t/a.json")]


def test_a_copy_lasts_as_long_as_it_is_used(
    memory: fsspec.AbstractFileSystem, tmp_path: Path
) -> None:
    memory.pipe_file("/t/a.json", b"here")
    with local_copy(Place("memory://t/a.json"), tmp_path) as file:
        assert file.read_bytes() == b"here"
    assert not list(tmp_path.iterdir())


def test_a_folder_with_all_below_it(memory: fsspec.AbstractFileSystem, tmp_path: Path) -> None:
    memory.pipe_file("/t/run/manifest.json", b"{}")
    memory.pipe_file("/t/run/traces/replay.json.gz", b"x")
    fetch("memory://t/run", tmp_path / "run", folder=True)
    assert (tmp_path / "run" / "traces" / "replay.json.gz").read_bytes() == b"x"


@pytest.mark.parametrize("given", ["nowhere", "memory://nowhere"])
def test_nothing_there(given: str) -> None:
    with pytest.raises(InputError):
        find_places([given])


def test_a_protocol_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(_: str) -> None:
        raise ImportError("no s3fs")

    monkeypatch.setattr(fsspec.core, "url_to_fs", lacking)
    with pytest.raises(MissingRequirementError, match=r"graphviz-dash\[s3\]"):
        find_places(["s3://bucket/a"])


def test_an_unknown_protocol() -> None:
    with pytest.raises(InputError):
        find_places(["teleport://a"])
