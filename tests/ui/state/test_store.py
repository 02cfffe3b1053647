from __future__ import annotations

import re
import weakref
from pathlib import Path

import pytest

from graphviz_dash.ui.state import store as module
from graphviz_dash.ui.state.results import get_comparison
from graphviz_dash.ui.state.scratch import Scratch
from graphviz_dash.ui.state.store import STORE, ClosedError, Extent, Store
from tests.builders import make_experiment, make_run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make_run(tmp_path / "toy", "eager", wall_ns=400_000).parent


def test_a_key_is_not_to_be_guessed_from_the_folder(path: Path) -> None:
    first, second = Store(), Store()
    assert re.fullmatch("[0-9a-f]{32}", first.register(path))
    assert first.register(path) == first.register(path / "eager" / "..")
    assert first.register(path) != second.register(path)


def test_a_run_that_arrives_is_there_without_a_new_start(path: Path) -> None:
    before = STORE.register(path)
    assert get_comparison(before).best is None
    make_run(path, "graph", wall_ns=100_000)
    after = STORE.register(path)
    best = get_comparison(after).best
    assert best is not None
    assert best["speedup"].value == 4
    with pytest.raises(ClosedError, match="Reload the page"):
        STORE.load_experiment_of_key(before)


def test_figures_of_an_earlier_version_are_dropped(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "SCRATCH", scratch := Scratch())
    store = Store()
    before = store.register(path)
    store.derive(before, "figure", lambda _: "old")
    (scratch.create_subfolder(before) / "trace.json").write_text("{}", encoding="utf-8")
    make_run(path, "graph")
    after = store.register(path)
    assert not store.has(before, "figure")
    assert not store.is_loaded(before)
    assert list(scratch.folder.iterdir()) == []
    assert store.derive(after, "figure", lambda _: "new") == "new"
    scratch.remove()


def test_a_figure_built_for_an_earlier_version_is_not_kept(path: Path) -> None:
    store = Store()
    before = store.register(path)

    def build(_: object) -> str:
        make_run(path, "graph")
        store.register(path)
        return "old"

    assert store.derive(before, "figure", build) == "old"
    assert not store.has(before, "figure")
    assert store._values == {}


def test_an_experiment_that_is_closed_is_known_no_more(tmp_path: Path) -> None:
    store = Store()
    path = make_experiment(tmp_path / "toy")
    key = store.register(path)
    store.load_experiment_of_key(key)
    store.close(tmp_path / "other")
    assert store.is_loaded(key)
    store.close(path)
    assert not store.is_loaded(key)
    with pytest.raises(ClosedError):
        store.load_experiment_of_key(key, Extent.NO_TRACES)


def test_the_least_recently_used_experiment_is_dropped(tmp_path: Path) -> None:
    def taken() -> int:
        return 100 * sum(map(store.is_loaded, keys))

    store = Store(max_bytes=250, get_used_bytes=taken)
    keys = [store.register(make_experiment(tmp_path / name)) for name in ("a", "b", "c")]
    first, second, third = keys
    for key in (first, second, first, third):
        assert store.derive(key, "figure", lambda experiment: experiment.name) in "abc"
    assert [store.is_loaded(key) for key in keys] == [True, False, True]
    # It is read again, and now another is the one that nobody asked for the longest.
    assert store.derive(second, "figure", lambda experiment: experiment.name) == "b"
    assert [store.is_loaded(key) for key in keys] == [False, True, True]


@pytest.mark.parametrize("taken", [None, 10])
def test_all_experiments_stay_if_memory_suffices_or_is_unknown(
    path: Path, taken: int | None
) -> None:
    store = Store(max_bytes=10, get_used_bytes=lambda: taken)
    keys = [store.register(path), store.register(make_experiment(path.parent / "other"))]
    for key in keys:
        store.load_experiment_of_key(key)
    assert all(map(store.is_loaded, keys))


class Cyclic:
    """Garbage that only a collection frees."""

    def __init__(self) -> None:
        self.itself = self


def test_objects_open_during_a_build_are_freed_later() -> None:
    now = 0.0
    collection = module._DeferredCollection(clock=lambda: now)
    session = Cyclic()
    gone = weakref.ref(session)
    with collection.defer():
        pass
    del session
    with collection.defer():
        pass
    assert gone() is not None, "what was looked through is not looked through each time"
    now = module._FULL_COLLECTION_S
    with collection.defer():
        pass
    assert gone() is None
