from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import msgspec
import pytest
from playwright.sync_api import BrowserContext, Page, expect
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from graphviz_dash.app.hosting import document
from graphviz_dash.app.hosting.cards_client import Card, FirstCards, SearchMessage
from graphviz_dash.app.hosting.document import DocumentMiddleware, complete_document
from graphviz_dash.app.overview import early_cards
from graphviz_dash.app.overview.early_cards import build_early_cards
from graphviz_dash.ingest.cache_folder import CACHE_VARIABLE
from graphviz_dash.ui.state import catalogue
from graphviz_dash.ui.state.catalogue import Catalogue, Entry
from graphviz_dash.ui.state.uploads import UPLOADS
from tests.builders import make_run
from tests.ui.appearance import turn
from tests.ui.tabs import Theme, tab
from tests.ui.waits import idle

EMPTY = b"<html><head></head><body><div id=root></div></body></html>"
NO_CARD = Card("", "", "", "", (), "", "2026-01-01T00:00:00+00:00", None, ())


def set_cards(monkeypatch: pytest.MonkeyPatch, card: Card | None) -> None:
    cards = SimpleNamespace(
        load_cached_cards=lambda *_: None, find_current_card=lambda _, theme: card
    )
    monkeypatch.setattr(early_cards, "FIRST_CARDS", cards)


@pytest.fixture
def large_folder(
    roots: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder that counts as large, searched and stored by an earlier server."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr(catalogue, "_MAX_SEARCHED", 0)
    monkeypatch.setattr(early_cards, "MAX_OPENED", 1)
    for name in ("<b>first</b>", "second"):
        make_run(roots / name.replace("/", "\N{DIVISION SLASH}"), "eager")
    monkeypatch.setattr(catalogue, "_SEARCHES", {})
    monkeypatch.setattr(catalogue, "_CACHED_SEARCHES", {})
    catalogue.list_experiments("visitor")
    catalogue._SEARCHES.clear()
    catalogue._CACHED_SEARCHES.clear()
    return roots


def test_a_stored_listing_with_current_cards_is_shown_at_once(
    large_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_cards(monkeypatch, NO_CARD)
    markup = build_early_cards("visitor")
    assert markup.count("<article") == 2
    assert "2 found in" in markup
    # Names of folders are text.
    assert "<b>" not in markup
    # The page of the visitor may show other rows.
    monkeypatch.setitem(UPLOADS._folders, "visitor", large_folder)
    assert build_early_cards("visitor") == ""


def test_rows_that_are_not_read_yet_show_the_names_of_this_servers_search(
    large_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_cards(monkeypatch, None)
    # An earlier server's search may list experiments that are gone.
    assert build_early_cards("visitor") == ""
    catalogue.list_experiments("visitor")
    markup = build_early_cards("visitor")
    assert markup.count('<article class="card unread"') == 2
    assert "2 found in" in markup
    assert "<span>second</span>" in markup
    assert "<b>" not in markup


def test_no_row_is_shown_early_without_a_search_or_many_experiments(
    large_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_cards(monkeypatch, NO_CARD)
    monkeypatch.setattr(early_cards, "MAX_OPENED", 2)
    assert build_early_cards("visitor") == ""
    monkeypatch.setattr(early_cards, "MAX_OPENED", 1)
    monkeypatch.setattr(catalogue, "_load_search", lambda _: None)
    assert build_early_cards("visitor") == ""


def test_a_search_by_the_process_of_the_cards_is_shown_at_once(
    large_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "_load_search", lambda _: None)
    assert build_early_cards("visitor") == ""
    cards = FirstCards()
    message = SearchMessage(str(large_folder), catalogue.search_folder(large_folder))
    line = msgspec.json.encode(message, enc_hook=str) + b"\n"
    process = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.PIPE)
    cards._read_messages(process, io.BytesIO(line))
    monkeypatch.setattr(early_cards, "FIRST_CARDS", cards)
    assert "<span>second</span>" in build_early_cards("visitor")


def test_only_the_plain_start_page_has_early_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "build_early_cards", lambda visitor: f"[early {visitor}]")

    async def answer(_: Request) -> HTMLResponse:
        return HTMLResponse(EMPTY)

    routes = [Route(path, answer) for path in ("/", "/compare")]
    client = TestClient(DocumentMiddleware(Starlette(routes=routes)))

    def has_rows(address: str) -> bool:
        return "[early " in client.get(address, headers={"accept": "text/html"}).text

    assert has_rows("/")
    assert not any(map(has_rows, ("/?find=x", "/?page=2", "/compare", "/compare?experiment=a")))


GET_PLACES = """root => ["h1", ".places", ".card-head", "article.card", "article.card h2 a", ".big"]
  .map(one => document.querySelector(`${root} ${one}`).getBoundingClientRect())
  .map(place => [place.x, place.y, place.height])"""


SCREENS: Final[tuple[tuple[int, Theme], ...]] = ((1280, "light"), (1600, "dark"), (1100, "light"))


@pytest.mark.ui
def test_the_page_draws_its_rows_where_the_early_ones_are(
    visitor: BrowserContext, dashboard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tab(visitor) as page:
        page.goto(f"{dashboard}/?view=Table")
        idle(page)
        expect(page.get_by_test_id("stSkeleton")).to_have_count(0)
        names = page.locator(".places").inner_text() * 4
        drawn = []
        for width, theme in SCREENS:
            page.set_viewport_size({"width": width, "height": 860})
            turn(page, theme)
            # Folders with longer names than the window has place for.
            page.eval_on_selector(".places", "(one, names) => { one.textContent = names }", names)
            app = '[data-testid="stApp"]'
            drawn.append((page.evaluate(GET_PLACES, app), page.evaluate(GET_COLOURS, app)))
        show_early_rows(page, dashboard, monkeypatch)
        for (width, theme), (places, colours) in zip(SCREENS, drawn, strict=True):
            page.set_viewport_size({"width": width, "height": 860})
            page.emulate_media(color_scheme=theme)
            assert page.evaluate(GET_PLACES, ".early") == [
                pytest.approx(place, abs=1) for place in places
            ]
            assert page.evaluate(GET_COLOURS, ".early") == colours


GET_COLOURS = """root => {
  const look = getComputedStyle(document.querySelector(root))
  return [look.color, look.backgroundColor, look.fontSize]
}"""


def show_early_rows(page: Page, dashboard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Show the rows of the current page as early rows, in a document without Streamlit."""
    cards = page.eval_on_selector_all("article.card", "all => all.map(one => one.outerHTML)")
    title = page.locator(".st-key-card-table").evaluate(
        "() => document.querySelector('h1').parentElement.innerHTML"
    )
    names = [f"experiment {number}" for number in range(len(cards))]
    listing = Catalogue({name: Entry(name, Path(name)) for name in names}, (), ())
    set_cards(monkeypatch, NO_CARD)
    monkeypatch.setattr(early_cards, "MAX_OPENED", 1)
    monkeypatch.setattr(early_cards, "list_known_experiments", lambda _: listing)
    monkeypatch.setattr(early_cards, "format_row", lambda *_: cards.pop(0))
    monkeypatch.setattr(early_cards, "format_title", lambda _: title)
    # Streamlit, whose page replaces the rows, is not in this document.
    content = re.sub(r"<script.*?</script>", "", build_early_cards("visitor"), flags=re.DOTALL)
    body = complete_document(EMPTY, "", content)
    page.route(
        f"{dashboard}/early", lambda route: route.fulfill(body=body, content_type="text/html")
    )
    page.goto(f"{dashboard}/early")
    page.evaluate("document.fonts.ready")
