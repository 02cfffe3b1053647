"""The panel on the Graph page, and the colour of nodes by their share of the limit."""

from __future__ import annotations

from html import unescape
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from graphviz_dash.features.efficiency.analysis import ceilings_choice
from graphviz_dash.features.efficiency.page import panel
from tests.features.efficiency.steps import make_ceilings
from tests.samples import SAMPLES
from tests.ui.views.apptests import LookIn, markup, rerun, shown


@pytest.fixture
def with_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ship limits of the samples' GPU."""
    monkeypatch.setattr(
        ceilings_choice, "load_shipped_ceilings", lambda: (make_ceilings("NVIDIA H200"),)
    )


def open_panel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open the folded panel, as a click does."""
    original = panel.st.expander

    def expander(label: str, **options: Any) -> Any:
        return original(label, **{**options, "expanded": label == "Hardware limits"})

    monkeypatch.setattr(panel.st, "expander", expander)


def show(look_in: LookIn, experiment: str = "gpt-train", **parameters: str) -> AppTest:
    look_in(SAMPLES)
    return shown("graph", experiment=experiment, run="graph", **parameters)


@pytest.mark.usefixtures("with_limits")
def test_the_panel_shows_sentence_table_and_changes(
    look_in: LookIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_panel(monkeypatch)
    page = show(look_in)
    text = unescape(markup(page))
    assert "within 20% of the hardware limit" in text
    assert "by fusing" in text
    table = next(frame.value for frame in page.dataframe if "Above the limit (µs)" in frame.value)
    excess = table["Above the limit (µs)"].tolist()
    assert excess == sorted(excess, reverse=True)
    assert "aten::mm" in table["Operator"].tolist()
    captions = " ".join(caption.value for caption in page.caption)
    assert "measured on another GPU of the same model" in captions


@pytest.mark.usefixtures("with_limits")
def test_groups_follow_the_address(look_in: LookIn, monkeypatch: pytest.MonkeyPatch) -> None:
    open_panel(monkeypatch)
    page = rerun(show(look_in, **{"limits-by": "line"}))
    table = next(frame.value for frame in page.dataframe if "Above the limit (µs)" in frame.value)
    assert any(".py:" in name for name in table["Source line"])


def test_missing_limits_are_explained(look_in: LookIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings_choice, "load_shipped_ceilings", lambda: ())
    open_panel(monkeypatch)
    text = unescape(markup(show(look_in, "mlp-train")))
    assert "the run contains no measured limits of NVIDIA H200" in text
    assert "graphviz-dash bench limits" in text
