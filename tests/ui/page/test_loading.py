from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.progress import watch
from graphviz_dash.ui.page import loading
from graphviz_dash.ui.state.store import Store
from tests.builders import make_experiment
from tests.ui.views.apptests import markup, rerun, shown


def test_a_reading_that_was_stopped_can_begin_again(roots: Path) -> None:
    make_experiment(roots / "toy")
    page = shown("compare", experiment="toy")
    page.session_state[loading._STOPPED] = loading.STORE.register(roots / "toy")
    page = rerun(page)
    assert "Loading cancelled" in markup(page)
    page = rerun(page.button(key="read-anew").click())
    assert "Loading cancelled" not in markup(page)
    assert not page.exception


def test_the_bar_is_gone_when_all_is_read(roots: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_DELAY_SECONDS", 0.0)
    monkeypatch.setattr(loading, "_UPDATE_SECONDS", 0.0)
    told: list[float] = []
    real = loading._ProgressBar.update

    def noting(self: loading._ProgressBar, share: float) -> None:
        told.append(share)
        real(self, share)

    monkeypatch.setattr(loading._ProgressBar, "update", noting)
    make_experiment(roots / "toy")
    page = rerun(shown("compare", experiment="toy"))
    assert told
    assert not [button for button in page.button if button.key == "stop-reading"]
    assert not page.exception


def test_an_interrupted_load_is_not_kept_and_is_repeated_on_request(tmp_path: Path) -> None:
    class StoppedError(Exception):
        pass

    def stop(share: float) -> None:
        raise StoppedError

    store = Store()
    key = store.register(make_experiment(tmp_path / "toy"))
    with pytest.raises(StoppedError), watch(stop):
        store.load_experiment_of_key(key)
    assert not store.is_loaded(key)
    assert len(store.load_experiment_of_key(key).runs) == 2
