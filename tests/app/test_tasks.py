from __future__ import annotations

import re
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from graphviz_dash.ui.state.catalogue import format_pair_name
from tests.ui.standing import follow
from tests.ui.waits import idle

pytestmark = pytest.mark.ui

SCREENS = ((1280, "light"), (1280, "dark"), (360, "dark"))
HEIGHT = 860
PAIR = urlencode({"experiment": format_pair_name("gpt-train/partial", "gpt-train/graph")})
DAYS = urlencode({"experiment": format_pair_name("moved-inputs/graph", "mlp-train/graph")})
TASKS = {
    "gain of one eager trace": (
        "compare?experiment=recorded-lightning",
        ".answer",
        r"Yes, after one fix: .* predicted 2\.78x faster",
    ),
    "graphed step that is not faster": (
        "compare?experiment=mlp-train&run=compile",
        ".answer",
        r"61\.3% of the work runs outside graphs, mostly Optimizer\.step",
    ),
    "line of a slow kernel": (
        "graph?experiment=transformer-train&run=graph",
        ".source-lines tbody tr >> nth=0",
        r"self\.mlp\(self\.norm_mlp\(x\)\).*35\.5%.*transformer\.py:53",
    ),
    "capture sizes of a server": (
        "graphs?experiment=recorded-server",
        "text=/35 sizes → 3 sizes/",
        r"without measurable loss: 146 MiB and 53\.5 ms of startup less",
    ),
    "graphs that torch.compile skipped": (
        "compile?experiment=compile-fixes&run=fixed-2",
        ".sentence",
        r"0 graph launches per step\. Fix first: An input is modified, sample\.py:35",
    ),
    "two versions": (
        f"compare?{PAIR}",
        ".answer",
        r"(faster|slower|difference|improvement|regress)",
    ),
    "dates of two recordings": (
        f"compare?{DAYS}",
        ".reasons",
        r"Recorded\s*graph@moved-inputs 2026-11-21, graph@mlp-train 2026-11-23",
    ),
    "report to share": ("export?experiment=mlp-train", "text=HTML report", "HTML report"),
    "difference of two graphs": (
        "graph?experiment=experts&run=parallel&graph=graph-0&against=graph:graph-0",
        "text=/nodes moved/",
        "69 nodes moved; 52 edges added, 17 removed",
    ),
    "capture that fails": (
        "doctor?experiment=sync-in-step",
        "text=/The capture fails at/",
        r"sync_in_step\.py:15: a GPU value is read on the CPU",
    ),
}
"""Address of the page, element of the answer, and text of the answer, by task."""


@pytest.fixture
def page(dashboard_tab: Page) -> Page:
    return dashboard_tab


@pytest.mark.parametrize("task", TASKS)
def test_a_task_is_answered_on_the_first_screen(page: Page, task: str) -> None:
    address, element, answer = TASKS[task]
    follow(page, address)
    place = page.locator(element).first
    for width, theme in SCREENS:
        page.set_viewport_size({"width": width, "height": HEIGHT})
        # Without motion a change of colours costs a quarter less.
        page.emulate_media(
            color_scheme="dark" if theme == "dark" else "light", reduced_motion="reduce"
        )
        idle(page)
        expect(place).to_contain_text(re.compile(answer, re.S))
        expect(page.get_by_test_id("stSkeleton")).to_have_count(0)
        # Without the text of hidden columns.
        visible = " ".join(place.inner_text().split())
        assert re.search(answer, visible), (width, theme)
        box = place.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= HEIGHT, (width, theme)


def test_every_page_links_to_its_help_and_shares_its_address(page: Page, dashboard: str) -> None:
    page.set_viewport_size({"width": SCREENS[0][0], "height": HEIGHT})
    follow(page, "compare?experiment=mlp-train")
    help_link = page.locator("h1 a.page-help")
    expect(help_link).to_have_attribute("href", re.compile("^/docs/"))
    expect(page.locator(".share-link")).to_be_in_viewport()
    answer = page.request.get(f"{dashboard}{(help_link.get_attribute('href') or '').split('#')[0]}")
    assert answer.status == 200
