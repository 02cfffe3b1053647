"""Every shipped experiment on every page, each of its runs included: nothing raises, and what is
missing says why."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from graphviz_dash.ui.state import catalogue
from tests.ui.views.test_pages import PAGES, markup, shown

SAMPLES = Path(__file__).parents[3] / "sample_traces"
EXPERIMENTS = sorted({path.parent.parent.name for path in SAMPLES.glob("*/*/manifest.json")})

OF_A_RUN = ("graph", "memory", "timeline")
"""Pages that show one run of the address."""

UNEXPLAINED = re.compile(r">\s*(None|nan|NaN|NaT|null|inf|-inf)\s*<")
ABSENT = re.compile(r'<\w+ class="[^"]*\babsent\b[^"]*"([^>]*)>')


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_a_sample_opens_on_every_page(monkeypatch: pytest.MonkeyPatch, experiment: str) -> None:
    monkeypatch.setattr(sys, "argv", ["app.py", str(SAMPLES)])
    catalogue.roots.cache_clear()
    runs = sorted(path.parent.name for path in (SAMPLES / experiment).glob("*/manifest.json"))
    try:
        for page in (*PAGES, "launch"):
            for run in runs if page in OF_A_RUN else [None]:
                chosen = {} if run is None else {"run": run}
                told = shown(page, experiment=experiment, **chosen)
                text = markup(told)
                assert text, (page, run)
                assert UNEXPLAINED.findall(text) == [], (page, run)
                assert [of for of in ABSENT.findall(text) if 'title="' not in of] == [], (page, run)
                assert [box.value for box in (*told.error, *told.warning)] == [], (page, run)
    finally:
        catalogue.roots.cache_clear()
