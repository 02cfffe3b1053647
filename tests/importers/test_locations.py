from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import fsspec
import pytest

from graphviz_dash.errors import InputError, MissingRequirementError
from graphviz_dash.importers.locations import (
    Location,
    fetch,
    find_locations,
    is_address,
    provide_local_copy,
)
from tests.faults import locked


@pytest.fixture
def memory() -> Iterator[fsspec.AbstractFileSystem]:
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()
    system.pseudo_dirs[:] = [""]


def test_addresses_have_a_scheme_other_than_file() -> None:
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
    found = find_locations([str(tmp_path)])
    assert found == [
        Location(f"{tmp_path}/a.json"),
        Location(f"{tmp_path}/deep/b.json"),
        Location(f"{tmp_path}/deep/run", is_bundle=True),
    ]


def test_a_folder_below_that_cannot_be_listed_is_reported(tmp_path: Path) -> None:
    for name in ("a.json", "closed/run/manifest.json", "open/b.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    with locked(tmp_path / "closed"):
        assert find_locations([str(tmp_path)]) == [
            Location(f"{tmp_path}/a.json"),
            Location(f"{tmp_path}/closed", problem="permission denied"),
            Location(f"{tmp_path}/open/b.json"),
        ]
        with pytest.raises(InputError, match="closed: permission denied"):
            find_locations([f"{tmp_path}/closed"])


def test_an_address_is_searched_the_same(memory: fsspec.AbstractFileSystem) -> None:
    for name in ("/t/a.json", "/t/run/manifest.json", "/t/run/clean.json", "/t/.x/c"):
        memory.pipe_file(name, b"{}")
    assert find_locations(["memory://t"]) == [
        Location("memory://t/run", is_bundle=True),
        Location("memory://t/a.json"),
    ]
    assert find_locations(["memory://t/a.json"]) == [Location("memory://t/a.json")]


def test_a_copy_lasts_as_long_as_it_is_used(
    memory: fsspec.AbstractFileSystem, tmp_path: Path
) -> None:
    memory.pipe_file("/t/a.json", b"here")
    with provide_local_copy(Location("memory://t/a.json"), tmp_path) as file:
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
        find_locations([given])


def test_a_protocol_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(_: str) -> None:
        raise ImportError("no s3fs")

    monkeypatch.setattr(fsspec.core, "url_to_fs", lacking)
    with pytest.raises(MissingRequirementError, match=r"graphviz-dash\[s3\]"):
        find_locations(["s3://bucket/a"])


class RefusingSystem:
    """A file system whose every answer is ``error``."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def isfile(self, _: str) -> bool:
        raise self.error

    def get_file(self, *_: str) -> None:
        raise self.error


class NoCredentialsError(Exception):
    """As botocore's, which is no OSError."""


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (NoCredentialsError("Unable to locate credentials"), "locate credentials.*AWS_ACCESS_KEY"),
        (FileNotFoundError("b/nowhere/o"), r"no such bucket, folder or file \(b/nowhere/o\)"),
        (PermissionError("Access Denied"), "Access Denied"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_an_error_of_a_bucket_is_one_line(
    error: Exception, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = ModuleType("botocore.exceptions")
    library.BotoCoreError = NoCredentialsError  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "botocore.exceptions", library)
    monkeypatch.setattr(fsspec.core, "url_to_fs", lambda _: (RefusingSystem(error), "b/x"))
    for ask in (
        lambda: find_locations(["s3://b/x"]),
        lambda: fetch("s3://b/x", tmp_path / "x", folder=False),
    ):
        with pytest.raises(InputError, match=f"^s3://b/x: .*{told}") as caught:
            ask()
        assert "\n" not in str(caught.value)


def test_empty_objects_that_stand_for_folders_are_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = ["b/x/", "b/x/deep/", "b/x/deep/a.json", "b/x/.hidden/c"]
    system = SimpleNamespace(isfile=lambda _: False, find=lambda _: listed)
    monkeypatch.setattr(fsspec.core, "url_to_fs", lambda _: (system, "b/x"))
    assert find_locations(["s3://b/x"]) == [Location("s3://b/x/deep/a.json")]


def test_names_in_a_bucket_lead_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Keys are any text: of ``b/x/../manifest.json`` no folder ``..`` must be made."""
    listed = ["b/x/../manifest.json", "b/x/../.ssh/config", "b/x/a.json"]
    system = SimpleNamespace(isfile=lambda _: False, find=lambda _: listed)
    monkeypatch.setattr(fsspec.core, "url_to_fs", lambda _: (system, "b/x"))
    assert find_locations(["s3://b/x"]) == [Location("s3://b/x/a.json")]
    assert Location("s3://b/x/..").name == "unnamed"
    with pytest.raises(InputError, match="a file at"):
        fetch("s3://b/x", tmp_path / "x", folder=True)


def test_an_error_of_a_worker_comes_back_as_it_was() -> None:
    error = InputError("s3://b/x", "y" * 1_000, "a trace", "Do something.")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert (again.where, again.found, again.advice) == (error.where, error.found, error.advice)


def test_an_unknown_protocol() -> None:
    with pytest.raises(InputError):
        find_locations(["teleport://a"])
