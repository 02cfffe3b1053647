"""Format the cards of the overview and the head of its table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from graphviz_dash.app.hosting.cards_client import Card
from graphviz_dash.ui.page.help import format_page_heading
from graphviz_dash.ui.page.markup import escape_html, format_element, format_text
from graphviz_dash.ui.page.navigation import get_title, link_markup
from graphviz_dash.ui.page.registry import PAGES
from graphviz_dash.ui.state.catalogue import Catalogue, format_folder

PAGE: Final = "page"
"""Parameter: number of the page, from 1."""
BY_NAME, BY_SPEEDUP, NEWEST = "By name", "Largest speedup", "Newest"
_COLUMNS: Final = (
    ("Experiment", "name", BY_NAME),
    ("Speedup", "speedup", BY_SPEEDUP),
    ("Outcome, step time", "outcome", None),
    ("Launches", "Launches", None),
    ("GPU idle", "GPU idle", None),
    ("Break-even", "Break-even after", None),
    ("Peak memory", "Peak memory", None),
    ("Steady state", "Steady-state memory", None),
    ("GPU, date", "where", NEWEST),
)
"""Heading, name and order; None if it does not sort."""


def format_title(catalogue: Catalogue) -> str:
    """Format the heading of the page, with the number of experiments."""
    upload_count = sum(entry.is_upload for entry in catalogue.entries.values())
    count = len(catalogue.entries) - upload_count
    folders = ", ".join(format_folder(root) for root in catalogue.roots)
    counts = f"{count or 'None'} found in {folders}" + (
        f", {upload_count} uploaded by you" if upload_count else ""
    )
    return format_page_heading("overview", "Experiments") + format_text(
        "p", counts, "muted places", title=counts
    )


def format_table_head(parameters: Mapping[str, list[str]]) -> str:
    """Format the headings of the table; links that sort it keep the ``parameters`` of the page."""
    others = {key: old for key, old in parameters.items() if key != PAGE}
    cells = []
    for heading, fact, order in _COLUMNS:
        content = escape_html(heading)
        if order is not None:
            content = link_markup("overview", heading, others | {"sort": [order]}, icon=False)
        cells.append(format_element("span", content, **{"data-fact": fact}))
    return format_element("div", "".join(cells), "card-head")


def format_row(name: str, card: Card) -> str:
    """Format the row of the experiment called ``name``; narrow windows show it as a short card."""
    parts = (_format_name(name, card), card.outcome_markup, card.facts_markup)
    return format_element("article", "".join(parts), "card")


def format_heading(name: str) -> str:
    """Format the row of an experiment that is not read yet; it is as high as a complete row."""
    link = link_markup("compare", name, {"experiment": name}, icon=False)
    parts = (
        format_element("div", format_element("h2", link), "card-title"),
        format_element("p", "Reading…", "uncompared"),
    )
    return format_element("article", "".join(parts), "card unread")


def format_card(name: str, card: Card) -> str:
    """Format the card of the experiment called ``name``."""
    query = {"experiment": name}
    pages = "".join(
        link_markup(page, get_title(PAGES[page].tab_of or page), query) for page in card.pages
    )
    parts = (
        _format_name(name, card),
        card.outcome_markup,
        card.bars_markup,
        card.facts_markup,
        format_element("div", pages, "card-pages"),
    )
    return format_element("article", "".join(parts), "card")


def _format_name(name: str, card: Card) -> str:
    # Open a program with many graphs on its Graphs page.
    first = "graphs" if "graphs" in card.pages else "compare"
    link = link_markup(first, name, {"experiment": name}, icon=False)
    return format_element("div", format_element("h2", link) + card.location_markup, "card-title")
