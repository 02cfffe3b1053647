from __future__ import annotations

import json
import re
from html import unescape

import pytest
from streamlit.testing.v1 import AppTest

from graphviz_dash.guidance.gaps import Part
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.ui.page.contents import find_empty_pages
from tests.samples import SAMPLES
from tests.test_wording import ODD
from tests.ui.views.apptests import PAGES, LookIn, markup, show_sample, shown

EXPERIMENTS = sorted({path.parent.parent.name for path in SAMPLES.glob("*/*/manifest.json")})

OF_A_RUN = ("graph", "memory", "timeline")
"""Pages that show one run of the address."""

UNEXPLAINED = re.compile(r">\s*(None|nan|NaN|NaT|null|inf|-inf)\s*<")
DELETED = re.compile(
    r"integer nanoseconds|Made with Streamlit|Lower bound for any number of streams"
    r"|longest chain of possible dependencies"
)
"""Text that no page repeats from a table or a document."""
FOLDED = re.compile("Device-side launch|records are matched|A Memcpy node in the middle")
"""Text that pages show in an expander only."""
TAG = re.compile("<[^>]*>")
ABSENT = re.compile(r'<\w+ class="[^"]*\babsent\b[^"]*"([^>]*)>')


def check(page: AppTest, name: str, **parameters: str) -> str:
    """Check the page ``name`` and return its markup."""
    text = markup(page)
    assert text, (name, parameters)
    assert UNEXPLAINED.findall(text) == [], (name, parameters)
    assert [of for of in ABSENT.findall(text) if 'title="' not in of] == [], (name, parameters)
    assert DELETED.findall(text) == [], (name, parameters)
    plain = unescape(TAG.sub("", text))
    assert [phrase for phrase in ODD if phrase in plain] == [], (name, parameters)
    folded = "".join(str(piece.value) for fold in page.expander for piece in fold.get("html"))
    assert len(FOLDED.findall(text)) == len(FOLDED.findall(folded)), (name, parameters)
    assert [box.value for box in (*page.error, *page.warning)] == [], (name, parameters)
    layouts = [json.loads(chart.proto.spec)["layout"] for chart in page.get("plotly_chart")]
    # Plotly's legend covers lines after a resize; the page has its own.
    assert all(layout["showlegend"] is False for layout in layouts), (name, parameters)
    for layout in layouts:
        # No room for a title that the page renders below the chart.
        if "axis" in (layout.get("meta") or {}):
            assert layout["margin"]["b"] == 22, (name, parameters)
    return text


def is_empty(text: str) -> bool:
    return 'class="empty"' in text and "Capture blockers in" not in text


def test_all_samples_stand_on_the_overview(look_in: LookIn) -> None:
    look_in(SAMPLES)
    for name in ("overview", "launch"):
        check(shown(name), name)


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_a_sample_opens_on_every_page(look_in: LookIn, experiment: str) -> None:
    """No page fails; a page is dim exactly if it has no content for any run."""
    # Alone: each page lists all that there is.
    look_in(SAMPLES / experiment)
    runs = sorted(path.parent.name for path in (SAMPLES / experiment).glob("*/manifest.json"))
    dim = find_empty_pages(load_experiment(SAMPLES / experiment).runs)
    for page in (*PAGES[1:], "compile", "launch"):
        texts = []
        for run in runs if page in OF_A_RUN else [None]:
            parameters = {} if run is None else {"run": run}
            drawn = show_sample(page, experiment, **parameters)
            texts.append(check(drawn, page, experiment=experiment, **parameters))
        if page in {part.value for part in Part}:
            assert all(map(is_empty, texts)) == (page in dim), page
