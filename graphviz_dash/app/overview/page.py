"""Overview: every experiment with its outcome, and a place to upload one."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from graphviz_dash.app.hosting.cards_client import FIRST_CARDS, KINDS, Card
from graphviz_dash.app.hosting.preload import preload_all
from graphviz_dash.app.overview.uploads import remove_button, upload_panel
from graphviz_dash.errors import InputError
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import empty, let_draw, no_experiments, theme, trouble
from graphviz_dash.ui.page.help import page_heading
from graphviz_dash.ui.page.listing import listing, tell_arrivals, tell_changes
from graphviz_dash.ui.page.markup import element, show, text
from graphviz_dash.ui.page.navigation import lead, title_of
from graphviz_dash.ui.page.pair import pair_panel
from graphviz_dash.ui.state.catalogue import Catalogue, Entry, as_typed
from graphviz_dash.ui.state.store import COMPARISON, STORE

_DRAWING_S: Final = 0.7
"""How long the browser has to draw the cards before traces are read, which takes all cores."""
_FIRST_CARDS: Final = 4
"""Cards that a window of 1280 x 860 shows."""


def render() -> None:
    """The page."""
    listed = listing()
    with st.container(horizontal=True, vertical_alignment="center"):
        show(_title(listed))
        st.space("stretch")
        pair_slot = st.container(width="content")
        upload_panel(listed)
    for problem in listed.problems:
        trouble("A folder could not be searched", problem)
    if not listed.entries:
        no_experiments(listed)
        return
    several = len(listed.entries) > 1
    if several:
        row = st.container(horizontal=True, vertical_alignment="center", gap="small", key="arrange")
    entries = _arranged(list(listed.entries.values()))
    if not entries:
        empty("No experiment matches", "Search for something else, or choose all kinds.")
    unread: list[tuple[Entry, DeltaGenerator]] = []
    # A grid of the style sheet's, with as many columns as the window has room for.
    with st.container(key="cards"):
        for number, entry in enumerate(entries):
            if number == _FIRST_CARDS:
                let_draw()
            slot = _card(entry)
            if slot is not None:
                unread.append((entry, slot))
        show(_own())
    # Behind the cards, which wait neither for a look at all runs, for what of them changed nor for
    # the scripts of fields: those of the first screen are drawn while the others are still sent.
    tell_arrivals(listed)
    tell_changes(list(listed.entries.values()))
    with pair_slot:
        pair_panel(listed)
    if several:
        with row:
            _choices()
    if unread:
        time.sleep(_DRAWING_S)
        preload_all()
    for entry, slot in unread:
        with slot:
            _read(entry)


def _choices() -> None:
    """What the cards are searched for, filtered and sorted by."""
    url_state.search("find", "Search experiments", "Search by name or what it is")
    bare: dict[str, Any] = {"label_visibility": "collapsed", "width": 180}
    url_state.choose("kind", "Show", _KINDS, **bare)
    url_state.choose("sort", "Sort by", tuple(_ORDERS), **bare)


def _arranged(entries: list[Entry]) -> list[Entry]:
    """Those of ``entries`` that are searched for, in the order that is chosen; the cards of all are
    looked at only where something is."""
    wanted = (url_state.value("find") or "").strip().lower()
    kind = url_state.chosen("kind", _KINDS)
    order = url_state.chosen("sort", tuple(_ORDERS))
    if not wanted and kind == _ALL and order == _AS_LISTED:
        return entries
    cards = [(entry, _card_to_sort(entry)) for entry in entries]
    kept = [
        (entry, card)
        for entry, card in cards
        if wanted in f"{entry.name} {card.about if card else ''}".lower()
        and (kind == _ALL or (card is not None and kind in card.kinds))
    ]
    key = _ORDERS[order]
    if key is not None:
        kept.sort(key=lambda pair: (pair[1] is None, key(pair[1]) if pair[1] else ()))
    return [entry for entry, _ in kept]


def _card_to_sort(entry: Entry) -> Card | None:
    try:
        return _known(entry) if STORE.has(entry.key, COMPARISON) else _first_card(entry)
    except InputError:
        return None


def _by_age(card: Card) -> tuple[float, ...]:
    """The newest first."""
    return (-datetime.fromisoformat(card.created).timestamp(),)


def _by_speedup(card: Card) -> tuple[float, ...]:
    """The largest first, those without one last."""
    return (1.0,) if card.speedup is None else (0.0, -card.speedup)


_ALL: Final = "All kinds"
_KINDS: Final = (_ALL, *KINDS)
_AS_LISTED: Final = "By name"
_ORDERS: Final[dict[str, Callable[[Card], tuple[float, ...]] | None]] = {
    _AS_LISTED: None,
    "Largest speedup": _by_speedup,
    "Newest": _by_age,
}


def _own() -> str:
    """How to see a workload of one's own here."""
    return element(
        "div",
        element("h2", "Your own workload")
        + element("p", "On a machine with a CUDA GPU, then reload this page:")
        + element(
            "pre",
            "pip install -e '.[collect]'    # in a clone of graphviz-dash\n"
            "graphviz-dash collect --workload package.module:factory "
            "\\\n    --modes eager,graph -o experiments/mine",
        )
        + element("p", "Or a program as it is, once without graphs and once with them:")
        + element(
            "pre",
            "graphviz-dash collect -o experiments/mine --name eager \\\n    -- python train.py\n"
            "graphviz-dash collect -o experiments/mine --name graphed \\\n"
            "    -- python train.py --cuda-graph",
        )
        + element("p", "Without a GPU here: zip the folder there and open it above.", "muted"),
        "empty own",
    )


def _title(listed: Catalogue) -> str:
    opened = sum(entry.is_upload for entry in listed.entries.values())
    count = len(listed.entries) - opened
    places = ", ".join(as_typed(root) for root in listed.roots)
    counts = f"{count or 'None'} found in {places}" + (f", {opened} opened here" if opened else "")
    return page_heading("overview", "Experiments") + element("p", text(counts), "muted places")


def _card(entry: Entry) -> DeltaGenerator | None:
    """An experiment; where its traces are not read yet, the place of its card."""
    if not entry.is_upload:
        return _slot_of(entry)
    with st.container(key=f"upload-{entry.key}"):
        slot = _slot_of(entry)
        remove_button(entry)
    return slot


def _slot_of(entry: Entry) -> DeltaGenerator | None:
    try:
        if STORE.has(entry.key, COMPARISON):
            show(_card_markup(entry, _known(entry)))
            return None
        markup = _card_markup(entry, _first_card(entry))
    except InputError as error:
        _unreadable(entry, str(error))
        return None
    slot = st.empty()
    slot.html(markup)
    return slot


def _card_markup(entry: Entry, card: Card) -> str:
    """A card as one piece: an experiment's name, what is told of it, links to its pages."""
    query = {"experiment": entry.name}
    # A program with many graphs is first asked what each of them is for.
    first = "graphs" if "graphs" in card.pages else "compare"
    title = element("h2", lead(first, entry.name, query, icon=False)) + card.where
    pages = "".join(lead(page, title_of(page), query) for page in card.pages)
    parts = (
        element("div", title, "card-title"),
        card.facts,
        element("div", pages, "card-pages"),
    )
    return element("article", "".join(parts), "card")


def _first_card(entry: Entry) -> Card:
    """The card as it is before the traces are read."""
    if (card := FIRST_CARDS.of(entry.path)) is not None:
        return card
    from graphviz_dash.app.overview.experiment_card import card_of
    from graphviz_dash.ui.state.results import outcome

    return card_of(outcome(entry.key), STORE.bare(entry.key), None)


def _known(entry: Entry) -> Card:
    """The card with what the traces tell, which are read."""
    # The analysis, which the first page of all does not wait for.
    from graphviz_dash.app.overview.experiment_card import card_of
    from graphviz_dash.ui.state.results import comparison

    seen = theme()
    return STORE.derived(
        entry.key,
        ("card", seen),
        lambda experiment: card_of(comparison(entry.key), experiment, seen),
    )


def _read(entry: Entry) -> None:
    """Draws an experiment anew with what its traces tell."""
    try:
        show(_card_markup(entry, _known(entry)))
    except InputError as error:
        _unreadable(entry, str(error))


def _unreadable(entry: Entry, problem: str) -> None:
    trouble(f"{entry.name} cannot be read", problem)
