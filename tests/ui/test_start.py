"""What the server does at its start, and what is known of experiments before their traces are."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphviz_dash.ui import catalogue, life, results
from graphviz_dash.ui.pieces import hero, time_bars, waiting_bars, why
from graphviz_dash.ui.results import comparison, outcome
from graphviz_dash.ui.store import STORE
from graphviz_dash.ui.views import overview
from tests.builders import STEP, make_experiment
from tests.ingest.test_load import replace_trace


@pytest.fixture
def roots(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    monkeypatch.setattr(sys, "argv", ["app.py", str(tmp_path)])
    catalogue.roots.cache_clear()
    yield tmp_path
    catalogue.roots.cache_clear()


def test_the_start_finds_out_what_the_overview_shows_first(
    roots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(make_experiment(roots / "broken") / "graph" / "graphs")
    key = STORE.register(make_experiment(roots / "toy"))
    life.prepare()
    assert not STORE.is_loaded(key)
    monkeypatch.setattr(results, "compare", pytest.fail)
    assert outcome(key).best is not None


def test_what_the_clean_passes_tell_is_what_is_told_with_the_traces(tmp_path: Path) -> None:
    key = STORE.register(make_experiment(tmp_path / "toy", work=STEP))
    before, bare = outcome(key), STORE.bare(key)
    assert [run.replay_trace or run.capture_trace for run in bare.runs] == [None, None]
    after = comparison(key)
    assert before.best is not None
    assert after.best is not None
    assert hero(before.best) == hero(after.best)
    for metric in ("speedup", "launch_cpu_time", "break_even", "peak_reserved_change"):
        assert before.best[metric] == after.best[metric]


def test_what_traces_tell_keeps_its_place_until_they_are_read(tmp_path: Path) -> None:
    key = STORE.register(make_experiment(tmp_path / "toy", work=STEP))
    before, after = outcome(key), comparison(key)
    waiting, drawn = waiting_bars(before), time_bars(after, "light")
    assert 'role="status"' in waiting
    for kind in ("name", "bar", "time"):
        assert waiting.count(f'class="{kind}"') == drawn.count(f'class="{kind}"') == 2
    facts = why(before, before.best, reading=True), why(after, after.best)
    assert facts[0].count("<b>") == facts[1].count("<b>")
    assert facts[0].count("<b>…</b>") == 2


def test_graphs_are_held_once(tmp_path: Path) -> None:
    key = STORE.register(make_experiment(tmp_path / "toy"))
    alone = STORE.bare(key).runs[1].graphs
    whole = STORE.experiment(key).runs[1].graphs
    assert whole is not alone
    assert STORE.bare(key).runs[1].graphs is whole


def test_a_trace_that_cannot_be_read_is_told_in_the_place_of_its_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_experiment(tmp_path / "toy")
    replace_trace(path / "graph", b"no trace")
    entry = catalogue.Entry("toy", path, STORE.register(path))
    assert outcome(entry.key).best is not None
    told: list[str] = []
    monkeypatch.setattr(overview, "trouble", lambda *words: told.extend(words))
    overview._read(entry)
    assert told[0] == "toy cannot be read"
