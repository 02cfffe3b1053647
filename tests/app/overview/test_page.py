from __future__ import annotations

import html
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from streamlit.testing.v1 import AppTest

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.app.hosting import server
from graphviz_dash.app.hosting.cards_client import Card, FirstCards
from graphviz_dash.app.overview import page as overview
from graphviz_dash.errors import InputError
from graphviz_dash.ingest import summaries
from graphviz_dash.ingest.cache_folder import CACHE_VARIABLE
from graphviz_dash.ingest.identity import measure_identity
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.ui.page import frame
from graphviz_dash.ui.state import catalogue
from graphviz_dash.ui.state.catalogue import Catalogue, Entry
from graphviz_dash.ui.state.results import get_comparison
from graphviz_dash.ui.state.store import STORE
from tests.builders import STEP, make_experiment, make_run
from tests.ui.views.apptests import (
    FAILURE,
    markup,
    page_links,
    rerun,
    shown,
)


def test_the_script_opens_at_the_overview(roots: Path) -> None:
    make_experiment(roots / "toy")
    page = rerun(AppTest.from_file(str(server.PAGES), default_timeout=60))
    assert "1 found in" in markup(page)
    assert "toy" in markup(page)


def test_a_file_that_is_damaged_while_a_page_is_built_is_reported(
    roots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_experiment(roots / "toy")

    def fail() -> None:
        raise InputError(roots / "toy", "a symbolic link", "a plain file")

    monkeypatch.setattr(overview, "render", fail)
    page = rerun(AppTest.from_file(str(server.PAGES), default_timeout=60))
    assert "a symbolic link; expected a plain file" in markup(page)


def test_the_overview_tells_how_much_faster_and_why(roots: Path) -> None:
    path = make_experiment(roots / "toy", work=STEP)
    result = compare_runs(load_experiment(path))
    best = result.best
    assert best is not None
    told = markup(shown("overview"))
    assert f">{best['speedup'].text}</span>" in told
    assert "graph is faster than eager" in told
    assert '400 µs → 100 µs<span class="per-step"> per step</span>' in told
    assert f"<b>{len(STEP)} → 1</b>" in told
    assert "<b>350 µs → 8.00 µs</b>" in told
    assert f"<b>{best['break_even'].text} replays</b>" in told
    assert 'aria-label="eager: 400 µs per step, GPU busy' in told


def test_a_slower_run_and_one_without_a_significant_difference_are_called_so(roots: Path) -> None:
    for name, wall in (("slower", 500_000), ("same", 400_000)):
        make_run(roots / name, "eager", wall_ns=400_000)
        make_run(roots / name, "graph", wall_ns=wall)
    told = markup(shown("overview"))
    assert ">1.25x</span><span" in told
    assert "graph is slower than eager" in told
    assert "no significant difference: graph and eager" in told


def test_an_unreadable_experiment_leaves_the_others(roots: Path) -> None:
    make_experiment(roots / "good")
    broken = make_experiment(roots / "broken") / "graph" / "clean.json"
    broken.write_bytes(broken.read_bytes()[:-20])
    told = markup(shown("overview"))
    assert "broken cannot be read" in told
    assert "graph is faster than eager" in told


def test_the_cards_of_the_first_screen_are_sent_before_the_others(
    roots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        make_run(roots / f"toy-{number}", "eager")
    sent: list[str] = []
    pauses: list[int] = []

    def send(entry: Entry, _: Card | None, *, is_table: bool) -> None:
        sent.append(entry.name)

    def pause() -> None:
        pauses.append(len(sent))

    monkeypatch.setattr(overview, "_show_card", send)
    monkeypatch.setattr(overview, "flush_to_browser", pause)
    shown("overview")
    assert pauses == [4]
    assert len(sent) == 6


def test_rows_with_complete_cards_are_few_elements_without_what_tables_hide(roots: Path) -> None:
    for number in range(overview._MAX_CARDS + 1):
        make_experiment(roots / f"toy-{number}", work=STEP)
    shown("overview")  # loads the traces
    page = shown("overview")
    elements = [element.proto.body for element in page.get("html")]
    rows = [element.count("<article") for element in elements if "<article" in element]
    assert rows == [overview._FIRST_CARDS, len(_titles(page)) - overview._FIRST_CARDS]
    assert 'class="bars"' not in markup(page)
    assert 'class="bars"' in markup(shown("overview", view="Cards"))


def _titles(page: AppTest) -> list[str]:
    return [
        link.label
        for link in page_links(page)
        if link.page == "compare" and link.label != "Compare"
    ]


def _three(roots: Path) -> None:
    make_experiment(roots / "toy")
    make_run(roots / "alone", "eager", work=STEP)
    make_run(roots / "sync", "eager")
    make_run(roots / "sync", "graph", failure=FAILURE)
    (roots / "toy" / "about.txt").write_text("A toy of <b>two</b> runs\nand more", encoding="utf-8")


def test_the_overview_says_what_each_is_and_its_titles_lead_there(roots: Path) -> None:
    _three(roots)
    page = shown("overview")
    assert _titles(page) == ["alone", "sync", "toy"]
    told = markup(page)
    assert "A toy of &lt;b&gt;two&lt;/b&gt; runs" in told
    assert "and more" not in told
    assert told.count('class="about"') == 3
    title = next(link for link in page_links(page) if link.label == "toy")
    assert title.query == "experiment=toy"


def test_a_card_is_one_element_of_the_page(roots: Path) -> None:
    """Each element is a message to the browser and work of both."""
    _three(roots)
    shown("overview")
    for name in ("alone", "sync", "toy"):
        get_comparison(STORE.register(roots / name))
    page = shown("overview")
    pieces = [str(piece.value) for piece in page.get("html")]
    assert sum('class="card"' in piece for piece in pieces) == 3
    # Colors, brand, bar, its buttons, title, choice of a pair, places of buttons and of fields,
    # own workload.
    assert len(pieces) == 3 + 9
    assert not page.get("page_link")


def test_the_overview_is_searched_filtered_and_sorted(roots: Path) -> None:
    _three(roots)
    assert _titles(shown("overview", find="a toy of")) == ["toy"]
    assert _titles(shown("overview", find="nothing")) == []
    assert _titles(shown("overview", kind="With failures")) == ["sync"]
    assert _titles(shown("overview", kind="Several ranks")) == []
    # Measured speedups, and predictions if nothing was measured.
    gains = {
        name: compare_runs(load_experiment(roots / name)).gain for name in ("alone", "sync", "toy")
    }
    for name in gains:
        get_comparison(STORE.register(roots / name))
    order = sorted(gains, key=lambda name: (gains[name] is None, -(gains[name] or 0.0)))
    assert _titles(shown("overview", sort="Largest speedup")) == order


@pytest.fixture
def many(roots: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FirstCards]:
    """Seven experiments, where three are too many to open all."""
    for number in range(7):
        path = make_run(roots / f"toy-{number}", "eager", wall_ns=100_000 * (number + 1)).parent
        (path / "about.txt").write_text(f"trial {number}", encoding="utf-8")
    cards = FirstCards()
    monkeypatch.setattr(overview, "MAX_OPENED", 3)
    monkeypatch.setattr(overview, "FIRST_CARDS", cards)
    yield cards
    cards.stop()


def test_many_experiments_are_shown_in_pages(roots: Path, many: FirstCards) -> None:
    page = shown("overview")
    assert _titles(page) == ["toy-0", "toy-1", "toy-2"]
    assert "1 to 3 of 7" in markup(page)
    turns = [
        link for link in page_links(page) if link.label in ("First", "Previous", "Next", "Last")
    ]
    assert [(link.label, link.query) for link in turns] == [("Next", "page=2"), ("Last", "page=3")]
    assert _titles(shown("overview", page="3")) == ["toy-6"]
    for odd in ("99999999999", "99", "-1", "0", "x", "²"):
        assert _titles(shown("overview", page=odd)) in (["toy-6"], ["toy-0", "toy-1", "toy-2"])
    assert "page=" not in str(
        [link for link in page_links(shown("overview", page="2")) if link.label == "Speedup"]
    )
    make_run(roots / "toy-9", "eager")
    shutil.rmtree(roots / "toy-6")
    assert _titles(shown("overview", page="3")) == ["toy-9"]


def test_the_palette_asks_the_server_for_many_experiments(
    many: FirstCards, monkeypatch: pytest.MonkeyPatch
) -> None:
    def get_names() -> Any:
        pieces = [str(piece.value) for piece in shown("overview").get("html")]
        (match,) = re.findall('data-palette="([^"]*)"', "".join(pieces))
        return json.loads(html.unescape(match))["experiments"]

    assert get_names() == [f"toy-{number}" for number in range(7)]
    monkeypatch.setattr(frame, "_MAX_NAMES", 6)
    assert get_names() is None


def test_many_experiments_are_searched_by_the_cards_that_are_known(
    roots: Path, many: FirstCards
) -> None:
    many.start([str(roots)])
    assert many.get_card(roots / "toy-5") is not None
    assert _titles(shown("overview", find="trial 5")) == ["toy-5"]
    assert _titles(shown("overview", find="TOY-6")) == ["toy-6"]
    assert _titles(shown("overview", find="nothing")) == []
    # Nothing but the shown experiments is opened.
    assert not any(STORE.is_loaded(STORE.register(roots / f"toy-{n}")) for n in (0, 1, 2))


def test_rows_show_their_names_until_they_are_read(
    roots: Path, many: FirstCards, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    get_first_card, format_heading = overview._get_first_card, overview.format_heading

    def read(entry: Entry, *_: object) -> Card:
        events.append(f"read {entry.name}")
        return get_first_card(entry)

    def show(name: str) -> str:
        events.append(f"show {name}")
        return format_heading(name)

    monkeypatch.setattr(overview, "_get_first_card", read)
    monkeypatch.setattr(overview, "format_heading", show)
    page = shown("overview", view="Table")
    names = ["toy-0", "toy-1", "toy-2"]
    assert events == [*(f"show {name}" for name in names), *(f"read {name}" for name in names)]
    assert _titles(page) == names
    assert "unread" not in markup(page)
    # A search finds names immediately.
    events.clear()
    assert _titles(shown("overview", view="Table", find="toy-6")) == ["toy-6"]
    assert events == ["show toy-6", "read toy-6"]


def test_rows_that_a_search_removes_do_not_wait_for_those_that_it_finds(
    many: FirstCards, monkeypatch: pytest.MonkeyPatch
) -> None:
    places: list[int] = []
    make_empty, show_cards = overview.st.empty, overview._show_cards

    def make_place() -> Any:
        places[-1] += 1
        return make_empty()

    def show(*arguments: Any, **options: Any) -> Any:
        places.append(0)
        with monkeypatch.context() as patch:
            patch.setattr(overview.st, "empty", make_place)
            return show_cards(*arguments, **options)

    page = shown("overview", view="Table")
    monkeypatch.setattr(overview, "_show_cards", show)
    for search, found in (("toy-6", ["toy-6"]), ("", ["toy-0", "toy-1", "toy-2"])):
        page.query_params["find"] = search
        assert _titles(rerun(page)) == found
    # The row that is found and two old ones; then an old one, because read rows are one element.
    assert places == [3, 1]


def test_a_row_that_cannot_be_read_says_so(roots: Path, many: FirstCards) -> None:
    file = roots / "toy-1" / "eager" / "clean.json"
    file.write_bytes(file.read_bytes()[:-20])
    page = markup(shown("overview", view="Table"))
    assert "toy-1 cannot be read" in page
    assert "unread" not in page


def test_a_stored_listing_shows_nothing_that_is_gone(
    roots: Path,
    many: FirstCards,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The first page of a new server lists as the last one found, until it has searched.

    The process that computes cards starts after it, unless it needs other cards.
    """
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr(catalogue, "_MAX_SEARCHED", 3)
    monkeypatch.setattr(summaries.time, "time_ns", lambda: 1 << 62)
    many.start([str(roots)])
    cache = summaries.get_default_summaries()
    assert cache is not None

    def store_card(name: str) -> None:
        folder, card = roots / name, many.get_card(roots / name)
        content = msgspec.json.encode(card)
        cache.store("card", [summaries.Summary(str(folder), measure_identity(folder), content)])

    for number in range(7):
        store_card(f"toy-{number}")
    shown("overview")

    events: list[str] = []

    def show_cards(*arguments: Any, **options: Any) -> Any:
        events.append("cards")
        return show_cards_of_page(*arguments, **options)

    show_cards_of_page = overview._show_cards
    monkeypatch.setattr(overview, "_show_cards", show_cards)

    def show_in_new_server() -> list[str]:
        events.clear()
        cards = FirstCards()
        cards.start = lambda _: events.append("start")  # type: ignore[method-assign]
        cards.prepare([str(roots)])
        monkeypatch.setattr(catalogue, "_SEARCHES", {})
        monkeypatch.setattr(catalogue, "_CACHED_SEARCHES", {})
        monkeypatch.setattr(overview, "FIRST_CARDS", cards)
        return _titles(shown("overview"))

    listings: list[Catalogue] = []
    has_outdated_listing = overview.has_outdated_listing
    monkeypatch.setattr(
        overview,
        "has_outdated_listing",
        lambda listed, poll: listings.append(listed) or has_outdated_listing(listed, poll),
    )
    assert show_in_new_server() == ["toy-0", "toy-1", "toy-2"]
    assert [listed.is_from_cache for listed in listings] == [True]
    assert events == ["cards", "start"]
    # On a later page: the stored listing is shown first, then the new one.
    make_run(roots / "a-new-one", "eager")
    store_card("a-new-one")
    listings.clear()
    assert show_in_new_server() == ["a-new-one", "toy-0", "toy-1"]
    assert [listed.is_from_cache for listed in listings] == [True, False]
    assert events == ["cards", "start", "cards"]
    # On the first page: its card is not current, so the page searches first.
    shutil.rmtree(roots / "toy-0")
    listings.clear()
    assert show_in_new_server() == ["a-new-one", "toy-1", "toy-2"]
    assert [listed.is_from_cache for listed in listings] == [False]
    assert events == ["start", "cards"]
    # Other pages take their cards from the cache, too.
    cards = FirstCards()
    monkeypatch.setattr(overview, "FIRST_CARDS", cards)
    assert _titles(shown("overview", page="2")) == ["toy-3", "toy-4", "toy-5"]
    assert cards.has_current_cards([roots / "toy-3", roots / "toy-5"], "light")
