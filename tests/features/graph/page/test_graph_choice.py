from __future__ import annotations

from typing import Final

import pytest
from playwright.sync_api import Page, expect

from graphviz_dash.ui.page.url_state import compute_list_width
from tests.ui.standing import follow
from tests.ui.waits import idle

GRAPH: Final = "graph?experiment=recorded-server&graph=graph-125"
CHOICES: Final = ".st-key-graph-choice input[role=combobox]"
CUTS: Final = "fields => fields.map(field => [field.value, field.scrollWidth - field.clientWidth])"


def test_a_list_is_as_wide_as_its_longest_title() -> None:
    widths = [compute_list_width(["graph-0", "x" * length]) for length in (0, 20, 60, 1_000)]
    assert widths == sorted(widths)
    assert widths[0] == widths[1] == compute_list_width([])
    # Chromium draws 48 characters of such a title 309 px wide, and a list has 32 px of padding.
    assert compute_list_width(["full decode, tokens 32 · 547 replays · graph-99"]) > 309 + 32


@pytest.mark.ui
def test_titles_of_graphs_are_not_cut(dashboard_tab: Page) -> None:
    page = dashboard_tab
    page.set_viewport_size({"width": 1440, "height": 860})
    follow(page, f"{GRAPH}&against=vllm-sizes:graph-126")
    expect(page.locator(CHOICES)).to_have_count(3)
    idle(page)
    cuts = dict(page.locator(CHOICES).evaluate_all(CUTS))
    assert "decode, batch 56, segment 1 of 5 · 65 replays · graph-125" in cuts
    assert max(cuts.values()) <= 0
