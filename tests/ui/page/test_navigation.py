from __future__ import annotations

from typing import Any

import pytest
from streamlit.delta_generator import DeltaGenerator

from tests.samples import SAMPLES
from tests.ui.views.apptests import LookIn, rerun, shown


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The markup of all elements, in the order in which the browser receives it."""
    pieces: list[str] = []
    enqueue = DeltaGenerator._enqueue

    def note(self: DeltaGenerator, kind: str, proto: Any, *rest: Any, **options: Any) -> Any:
        pieces.append(getattr(proto, "body", ""))
        return enqueue(self, kind, proto, *rest, **options)

    monkeypatch.setattr(DeltaGenerator, "_enqueue", note)
    return pieces


def _find_bars(sent: list[str]) -> list[str]:
    return [piece for piece in sent if piece.startswith("<nav") and "pages" in piece[:20]]


def test_a_page_seen_before_sends_its_dim_links_once(look_in: LookIn, sent: list[str]) -> None:
    look_in(SAMPLES)
    page = shown("doctor", experiment="mlp-train")
    first = _find_bars(sent)
    assert [bar.count("to-page dim") > 0 for bar in first] == [False, True]
    sent.clear()
    rerun(page)
    assert _find_bars(sent) == first[1:]


def test_links_of_another_experiment_are_not_dim_as_before(
    look_in: LookIn, sent: list[str]
) -> None:
    look_in(SAMPLES)
    page = shown("doctor", experiment="mlp-train")
    sent.clear()
    page.query_params["experiment"] = "tp-transformer"
    rerun(page)
    assert "to-page dim" not in _find_bars(sent)[0]


def test_the_overview_sends_its_experiments_before_its_panels(
    look_in: LookIn, sent: list[str]
) -> None:
    look_in(SAMPLES)
    shown("overview")
    (record,) = (index for index, piece in enumerate(sent) if "Your own workload" in piece)
    assert "".join(sent[:record]).count("<article") > 20
