"""What is kept of experiments: under keys that nobody guesses, and of the version that is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graphviz_dash.ui.state import store as module
from graphviz_dash.ui.state.results import comparison
from graphviz_dash.ui.state.scratch import Scratch
from graphviz_dash.ui.state.store import STORE, ClosedError, Store
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
    assert comparison(before).best is None
    make_run(path, "graph", wall_ns=100_000)
    after = STORE.register(path)
    best = comparison(after).best
    assert best is not None
    assert best["speedup"].value == 4
    with pytest.raises(ClosedError, match="reload the page"):
        STORE.experiment(before)


def test_what_was_known_of_an_earlier_version_is_dropped(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "SCRATCH", scratch := Scratch())
    store = Store()
    before = store.register(path)
    store.derived(before, "figure", lambda _: "old")
    (scratch.subfolder(before) / "trace.json").write_text("{}", encoding="utf-8")
    make_run(path, "graph")
    after = store.register(path)
    assert not store.has(before, "figure")
    assert not store.is_loaded(before)
    assert list(scratch.folder.iterdir()) == []
    assert store.derived(after, "figure", lambda _: "new") == "new"
    scratch.remove()


def test_what_is_made_of_an_earlier_version_meanwhile_is_not_kept(path: Path) -> None:
    store = Store()
    before = store.register(path)

    def build(_: object) -> str:
        make_run(path, "graph")
        store.register(path)
        return "old"

    assert store.derived(before, "figure", build) == "old"
    assert not store.has(before, "figure")
    assert store._values == {}


def test_an_experiment_that_is_closed_is_known_no_more(tmp_path: Path) -> None:
    store = Store()
    path = make_experiment(tmp_path / "toy")
    key = store.register(path)
    store.experiment(key)
    store.close(tmp_path / "other")
    assert store.is_loaded(key)
    store.close(path)
    assert not store.is_loaded(key)
    with pytest.raises(ClosedError):
        store.bare(key)
