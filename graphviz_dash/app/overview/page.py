"""Overview: all experiments with their outcome, and an upload field."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import streamlit as st
from msgspec import Struct

from graphviz_dash.app.hosting.cards_client import FIRST_CARDS, KINDS, MAX_OPENED, Card
from graphviz_dash.app.hosting.preload import preload_all
from graphviz_dash.app.overview.cards import (
    BY_NAME,
    BY_SPEEDUP,
    NEWEST,
    PAGE,
    format_card,
    format_heading,
    format_row,
    format_table_head,
    format_title,
)
from graphviz_dash.app.overview.uploads import show_remove_button, show_upload_panel
from graphviz_dash.errors import InputError
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import (
    flush_to_browser,
    get_theme,
    show_empty_state,
    show_error_panel,
    show_no_experiments,
)
from graphviz_dash.ui.page.listing import (
    get_listing,
    has_outdated_listing,
    toast_arrivals,
    toast_changes,
)
from graphviz_dash.ui.page.markup import format_element, format_text, show_markup
from graphviz_dash.ui.page.navigation import link_markup, show_link
from graphviz_dash.ui.page.pair import show_pair_panel
from graphviz_dash.ui.state.catalogue import Catalogue, Entry
from graphviz_dash.ui.state.store import COMPARISON, STORE, Extent
from graphviz_dash.units import format_count, pluralize

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

_DRAWING_S: Final = 0.7
"""Seconds for the browser to draw the cards before all cores are used."""
_POLL_S: Final = 0.05
_SAMPLE: Final = "mlp-train"
"""Sample that answers most questions on its first page."""
_TABLE_BUTTONS_PX: Final = 552
_CARD_BUTTONS_PX: Final = 294
"""Widths of the head's buttons, which stay in place when another one arrives."""
_TABLE, _CARDS = "Table", "Cards"
_ELEMENTS: Final = "overview-elements"
"""Session key: number of elements that contain the cards in the browser."""
_OTHER_ELEMENTS: Final = 3
"""Maximum number of elements without one of the cards that are not loaded yet."""
_MAX_CARDS: Final = 8
"""Number of experiments above which the default is a table."""
_FIRST_CARDS: Final = 4
"""Number of cards visible in a window of 1280 x 860."""


class _Unread(Struct, frozen=True):
    """An experiment on the page whose traces are not loaded yet."""

    entry: Entry
    slot: DeltaGenerator
    """Placeholder of its card."""
    is_heading: bool
    """True if it shows only its name."""


def render() -> None:
    """Render the page."""
    catalogue = _get_first_listing()
    is_table = url_state.get_option("view", _list_views(catalogue)) == _TABLE
    fill_head = _show_head(catalogue, is_table=is_table)
    for problem in catalogue.problems:
        show_error_panel("Folder could not be searched", problem)
    if not catalogue.entries:
        show_no_experiments(catalogue)
        fill_head()
        return
    has_several = len(catalogue.entries) > 1
    if has_several:
        row = st.container(horizontal=True, vertical_alignment="center", gap="small", key="arrange")
        with row:
            _reserve_space()
    is_large = len(catalogue.entries) > MAX_OPENED
    if is_large:
        FIRST_CARDS.refresh()
    matching = _arrange_entries(list(catalogue.entries.values()), is_large=is_large)
    if not matching:
        show_empty_state("No experiment matches", "Change the search text or select all kinds.")
    first = _get_first_row(len(matching))
    entries = matching[first : first + MAX_OPENED]
    if is_large:
        FIRST_CARDS.load_cached_cards([entry.path for entry in entries], get_theme())
    unread = _show_cards(entries, is_table=is_table, is_large=is_large)
    if len(matching) > MAX_OPENED:
        show_markup(_format_pager(first, len(matching)))
    else:
        st.empty()
    if is_large:
        _show_unknown(catalogue)
    # After the cards, which must not wait for the list of runs, for changes or for the scripts of
    # input fields: the first screen is drawn while the rest is still sent.
    fill_head()
    toast_arrivals(catalogue)
    toast_changes(entries)
    if has_several:
        with row:
            _show_filters(catalogue)
    _load_first_rows(unread)
    _update_listing(catalogue)
    _load_cards(unread, is_table=is_table, is_large=is_large)


def _get_first_listing() -> Catalogue:
    """Return the experiments: for a page in default order as stored, if all its cards are."""
    listing = get_listing(uses_cache=True)
    if listing.is_from_cache:
        if not url_state.get_parameters().keys() & {"find", "kind", "sort"}:
            first = _get_first_row(len(listing.entries))
            entries = islice(listing.entries.values(), first, first + MAX_OPENED)
            visible_paths = [entry.path for entry in entries]
            FIRST_CARDS.load_cached_cards(visible_paths, get_theme())
            if FIRST_CARDS.has_current_cards(visible_paths, get_theme()):
                return listing
        listing = get_listing()
    FIRST_CARDS.start_prepared()
    return listing


def _update_listing(catalogue: Catalogue) -> None:
    """Search the folders of a stored listing; rerun the page if it changed."""
    if catalogue.is_from_cache:
        _wait_for_drawing()
        FIRST_CARDS.start_prepared()
    if has_outdated_listing(catalogue, _stop_if_left):
        st.rerun()


def _wait_for_drawing() -> None:
    """Leave all cores to the browser, unless its visitor leaves the page."""
    end_s = time.monotonic() + _DRAWING_S
    while time.monotonic() < end_s:
        time.sleep(_POLL_S)
        _stop_if_left()


def _show_cards(entries: list[Entry], *, is_table: bool, is_large: bool) -> list[_Unread]:
    """Show the cards; return the placeholders of those without loaded traces.

    In a large table, rows that are not read yet show the name.
    """
    unread: list[_Unread] = []
    old_count: int = st.session_state.get(_ELEMENTS, 0)
    # Known before they are sent, because the next interaction may end this run.
    st.session_state[_ELEMENTS] = max(old_count, len(entries) + _OTHER_ELEMENTS)
    count = 0
    # The style sheet lays the cards out as a responsive grid, or each as a row of a table.
    with st.container(key="card-table" if is_table else "cards", gap=None if is_table else "small"):
        # Successive rows are one element: the browser needs half the time of one element each.
        rows = [format_table_head(url_state.get_parameters())] if is_table else []
        for number, entry in enumerate(entries):
            if number == _FIRST_CARDS:
                count += _send_rows(rows)
                flush_to_browser()
            card = _find_complete_card(entry, is_large=is_large)
            if is_table and card is not None and not entry.is_upload:
                rows.append(format_row(entry.name, card))
                continue
            count += _send_rows(rows) + 1
            is_heading = is_table and is_large and card is None and _is_unread(entry)
            slot: DeltaGenerator | None = None
            if is_heading:
                slot = st.empty()
                slot.html(format_heading(entry.name))
            else:
                slot = _show_card(entry, card, is_table=is_table)
            if slot is not None:
                unread.append(_Unread(entry, slot, is_heading))
        if not is_table:
            rows.append(_format_own_workload())
        count += _send_rows(rows)
        # The browser keeps elements of the last run until the end of this one, which reads traces.
        for _ in range(count, old_count):
            st.empty()
    st.session_state[_ELEMENTS] = count
    return unread


def _send_rows(rows: list[str]) -> int:
    """Show ``rows`` as one element, and remove them; return the number of elements."""
    show_markup(*rows)
    count = min(len(rows), 1)
    rows.clear()
    return count


def _get_first_row(count: int) -> int:
    """Return the index of the first experiment on the page in the address."""
    text = url_state.get_value(PAGE) or ""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 1
    last = max(count - 1, 0) // MAX_OPENED
    return min(max(number - 1, 0), last) * MAX_OPENED


def _format_pager(first: int, count: int) -> str:
    """Format the position in a list of several pages, with links."""
    page, last = first // MAX_OPENED + 1, (count - 1) // MAX_OPENED + 1
    parameters = url_state.get_parameters()
    links = "".join(
        link_markup("overview", label, parameters | {PAGE: [str(number)]}, icon=False)
        for label, number in (
            ("First", 1),
            ("Previous", page - 1),
            ("Next", page + 1),
            ("Last", last),
        )
        if number != page and 1 <= number <= last
    )
    text = f"{first + 1} to {min(first + MAX_OPENED, count)} of {format_count(count)}"
    return format_element("div", format_element("span", text) + links, "pager")


def _show_unknown(catalogue: Catalogue) -> None:
    count = FIRST_CARDS.count_unknown(entry.path for entry in catalogue.entries.values())
    if count:
        text = (
            f"{pluralize(count, 'experiment')} not read yet: search and filters find "
            f"{'it' if count == 1 else 'them'} by name only."
        )
        show_markup(format_text("p", text, "muted", role="status"))


def _show_head(catalogue: Catalogue, *, is_table: bool) -> Callable[[], None]:
    """Show the head; return the function that adds its buttons."""
    with st.container(horizontal=True, vertical_alignment="center", key="head"):
        show_markup(format_title(catalogue))
        st.space("stretch")
        width = _TABLE_BUTTONS_PX if is_table else _CARD_BUTTONS_PX
        row = st.container(horizontal=True, width=width, key="head-buttons")
        with row:
            _reserve_space()

    def fill_head() -> None:
        with row:
            if is_table and (sample := _find_sample(catalogue)):
                show_link("compare", "See a sample", {url_state.EXPERIMENT: sample})
            show_pair_panel(catalogue)
            show_upload_panel(catalogue)
            if is_table:
                with st.popover("Record", icon=":material/terminal:"):
                    show_markup(_format_own_workload())

    return fill_head


def _reserve_space() -> None:
    """Keep the height of an empty container, which the browser would not draw."""
    show_markup(format_element("span", "", "place"))


def _find_sample(catalogue: Catalogue) -> str | None:
    """Return the sample to start with, if it is served."""
    return next((entry.name for entry in catalogue.entries.values() if entry.name == _SAMPLE), None)


def _list_views(catalogue: Catalogue) -> tuple[str, str]:
    """Return the views, the default first: a table for many experiments."""
    return (_TABLE, _CARDS) if len(catalogue.entries) > _MAX_CARDS else (_CARDS, _TABLE)


def _show_filters(catalogue: Catalogue) -> None:
    url_state.show_search_field(
        "find", "Search experiments", "Search name or description", clears=(PAGE,)
    )
    bare: dict[str, Any] = {"label_visibility": "collapsed", "width": 180, "clears": (PAGE,)}
    url_state.select_option("kind", "Show", _KINDS, **bare)
    url_state.select_option("sort", "Sort by", tuple(_ORDERS), **bare)
    url_state.select_option("view", "View", _list_views(catalogue), **bare)


def _arrange_entries(entries: list[Entry], *, is_large: bool) -> list[Entry]:
    """Filter and sort ``entries``; reads cards only if a filter or order is set.

    For many experiments, uses only cards that are known already.
    """
    query = (url_state.get_value("find") or "").strip().lower()
    kind = url_state.get_option("kind", _KINDS)
    order = url_state.get_option("sort", tuple(_ORDERS))
    if not query and kind == _ANY_KIND and order == BY_NAME:
        return entries
    cards = (
        FIRST_CARDS.find_cards(entry.path for entry in entries)
        if is_large
        else map(_get_card_to_sort, entries)
    )
    matching = [
        (entry, card)
        for entry, card in zip(entries, cards, strict=True)
        if query in f"{entry.name} {card.description if card else ''}".lower()
        and (kind == _ANY_KIND or (card is not None and kind in card.kinds))
    ]
    key = _ORDERS[order]
    if key is not None:
        matching.sort(key=lambda pair: (pair[1] is None, key(pair[1]) if pair[1] else ()))
    return [entry for entry, _ in matching]


def _get_card_to_sort(entry: Entry) -> Card | None:
    try:
        return _get_full_card(entry) if STORE.has(entry.key, COMPARISON) else _get_first_card(entry)
    except InputError:
        return None


def _get_age_key(card: Card) -> tuple[float, ...]:
    return (-datetime.fromisoformat(card.created).timestamp(),)


def _get_speedup_key(card: Card) -> tuple[float, ...]:
    """Sort key: largest speedup first, missing ones last."""
    return (1.0,) if card.speedup is None else (0.0, -card.speedup)


_ANY_KIND: Final = "All kinds"
_KINDS: Final = (_ANY_KIND, *KINDS)
_ORDERS: Final[dict[str, Callable[[Card], tuple[float, ...]] | None]] = {
    BY_NAME: None,
    BY_SPEEDUP: _get_speedup_key,
    NEWEST: _get_age_key,
}


def _format_own_workload() -> str:
    return format_element(
        "div",
        format_element("h2", "Your own workload")
        + format_element("p", "On a machine with a CUDA GPU, then reload this page:")
        + format_element(
            "pre",
            "pip install -e '.[collect]'    # in a clone of graphviz-dash\n"
            "graphviz-dash collect --workload package.module:factory "
            "\\\n    --modes eager,graph -o experiments/mine",
        )
        + format_element(
            "p", "Or record an unmodified program, once without graphs and once with them:"
        )
        + format_element(
            "pre",
            "graphviz-dash collect -o experiments/mine --name eager \\\n    -- python train.py\n"
            "graphviz-dash collect -o experiments/mine --name graphed \\\n"
            "    -- python train.py --cuda-graph",
        )
        + format_element(
            "p",
            (
                "If this machine has no GPU, zip the folder on the other machine and upload it "
                "above."
            ),
            "muted",
        ),
        "empty own",
    )


def _show_card(entry: Entry, card: Card | None, *, is_table: bool) -> DeltaGenerator | None:
    """Show a card; return its placeholder if its traces are not loaded yet (None as ``card``)."""
    if not entry.is_upload:
        return _show_card_or_slot(entry, card, is_table=is_table)
    with st.container(key=f"upload-{entry.key}"):
        slot = _show_card_or_slot(entry, card, is_table=is_table)
        show_remove_button(entry)
    return slot


def _show_card_or_slot(entry: Entry, card: Card | None, *, is_table: bool) -> DeltaGenerator | None:
    format_entry = format_row if is_table else format_card
    if card is not None:
        show_markup(format_entry(entry.name, card))
        return None
    with _report_unreadable(entry):
        markup = format_entry(entry.name, _get_first_card(entry))
        slot = st.empty()
        slot.html(markup)
        return slot
    return None


def _is_unread(entry: Entry) -> bool:
    """Return True if an experiment under the server's folders has no current card."""
    return not entry.is_upload and FIRST_CARDS.find_current_card(entry.path, None) is None


def _find_complete_card(entry: Entry, *, is_large: bool) -> Card | None:
    """Return the card with the data of the traces, if they are loaded."""
    with suppress(InputError):  # reported where the first card is built
        if STORE.has(entry.key, COMPARISON):
            return _get_full_card(entry)
    return FIRST_CARDS.find_current_card(entry.path, get_theme()) if is_large else None


def _get_first_card(entry: Entry, poll: Callable[[], object] | None = None) -> Card:
    if (card := FIRST_CARDS.get_card(entry.path, poll=poll)) is not None:
        return card
    from graphviz_dash.app.overview.experiment_card import build_card
    from graphviz_dash.ui.state.results import get_comparison_without_traces

    return build_card(
        get_comparison_without_traces(entry.key),
        STORE.load_experiment_of_key(entry.key, Extent.NO_TRACES),
        None,
    )


def _get_full_card(entry: Entry) -> Card:
    # Imports the analysis, which the first page does not need.
    from graphviz_dash.app.overview.experiment_card import build_card
    from graphviz_dash.ui.state.results import get_comparison

    current_theme = get_theme()
    return STORE.derive(
        entry.key,
        ("card", current_theme),
        lambda experiment: build_card(get_comparison(entry.key), experiment, current_theme),
    )


def _load_first_rows(unread: list[_Unread]) -> None:
    """Replace the rows that show only a name."""
    for row in unread:
        if row.is_heading:
            with row.slot, _report_unreadable(row.entry):
                card = _get_first_card(row.entry, _stop_if_left)
                show_markup(format_row(row.entry.name, card))


def _load_cards(unread: list[_Unread], *, is_table: bool, is_large: bool) -> None:
    """Load the traces, and replace the cards."""
    if unread:
        _wait_for_drawing()
        preload_all()
    for row in unread:
        with row.slot:
            _load_card(row.entry, is_table=is_table, is_large=is_large)


def _load_card(entry: Entry, *, is_table: bool, is_large: bool) -> None:
    format_entry = format_row if is_table else format_card
    card = FIRST_CARDS.get_card(entry.path, get_theme(), _stop_if_left) if is_large else None
    with _report_unreadable(entry):
        show_markup(format_entry(entry.name, card or _get_full_card(entry)))


@contextmanager
def _report_unreadable(entry: Entry) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        show_error_panel(f"{entry.name} cannot be read", str(error))


def _stop_if_left() -> None:
    """End this run if its visitor has left or changed a filter."""
    # Streamlit looks for requests of the browser at each access.
    st.session_state.get(PAGE)
