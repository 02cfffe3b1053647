from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from graphviz_dash.ingest.cache_folder import CACHE_VARIABLE
from graphviz_dash.ui.state import catalogue
from tests.builders import make_run


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the clock of searches of a folder that counts as large."""
    time_s = [0.0]
    monkeypatch.setattr(catalogue, "_MAX_SEARCHED", 0)
    monkeypatch.setattr(catalogue.time, "monotonic", lambda: time_s[0])
    monkeypatch.setattr(catalogue, "_SEARCHES", {})
    monkeypatch.setattr(catalogue, "_CACHED_SEARCHES", {})

    def set_time(seconds: float) -> None:
        time_s[0] = seconds

    return set_time


def list_names(*, reuses_search: bool) -> list[str]:
    return list(catalogue.list_experiments("visitor", reuses_search=reuses_search).entries)


def test_an_interaction_waits_for_no_search_and_the_next_one_sees_what_arrived(
    roots: Path, now: Callable[[float], None]
) -> None:
    make_run(roots / "first", "eager")
    assert list_names(reuses_search=False) == ["first"]
    make_run(roots / "group" / "second", "eager")
    now(11.0)
    assert list_names(reuses_search=True) == ["first"]
    catalogue.refresh_searches().join()
    assert list_names(reuses_search=True) == ["first", "group/second"]
    make_run(roots / "third", "eager")
    now(612.0)
    assert list_names(reuses_search=True) == ["first", "group/second", "third"]


def test_a_new_page_searches_after_ten_seconds(roots: Path, now: Callable[[float], None]) -> None:
    make_run(roots / "first", "eager")
    assert list_names(reuses_search=False) == ["first"]
    make_run(roots / "second", "eager")
    now(9.0)
    assert list_names(reuses_search=False) == ["first"]
    now(11.0)
    assert list_names(reuses_search=False) == ["first", "second"]


@pytest.fixture
def cached(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path_factory.mktemp("cache")))


@pytest.mark.usefixtures("cached")
def test_the_next_server_lists_a_large_folder_as_stored(
    roots: Path, now: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(roots / "first", "eager")
    assert list_names(reuses_search=False) == ["first"]
    monkeypatch.setattr(catalogue, "_SEARCHES", {})
    monkeypatch.setattr(catalogue, "_CACHED_SEARCHES", {})
    make_run(roots / "second", "eager")
    cached_listing = catalogue.list_experiments("visitor", uses_cache=True)
    assert cached_listing.is_from_cache
    assert [(entry.name, entry.path) for entry in cached_listing.entries.values()] == [
        ("first", roots / "first")
    ]
    searched = catalogue.list_experiments("visitor")
    assert not searched.is_from_cache
    assert list(searched.entries) == ["first", "second"]
    # A search of this server is newer.
    assert not catalogue.list_experiments("visitor", uses_cache=True).is_from_cache


@pytest.mark.usefixtures("cached")
def test_a_small_folder_is_always_searched(
    roots: Path, now: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "_MAX_SEARCHED", 2)
    make_run(roots / "first", "eager")
    assert list_names(reuses_search=False) == ["first"]
    assert not catalogue.preload_searches([roots])
    # A search of many folders costs as much if they contain no experiment.
    (roots / "empty").mkdir()
    assert list_names(reuses_search=False) == ["first"]
    assert catalogue.preload_searches([roots])
