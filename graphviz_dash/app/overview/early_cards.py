"""Put the first rows of a large overview into its document.

They appear before Streamlit's front end has loaded its scripts, connected and run the page.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from graphviz_dash.app.hosting.cards_client import FIRST_CARDS, MAX_OPENED
from graphviz_dash.app.overview.cards import (
    format_heading,
    format_row,
    format_table_head,
    format_title,
)
from graphviz_dash.ui.page.markup import format_element
from graphviz_dash.ui.state.catalogue import list_known_experiments

_ROWS: Final = 20
"""Number of rows; more do not fit into a window."""
_ROOT_STYLE: Final = "<style>html{font-size:15px}</style>"
"""Font size of the root as long as the rows are there."""
_REMOVAL_SCRIPT: Final = """<script type="module">
const early = document.querySelector(".early")
const root = document.documentElement
const count = early.querySelectorAll("article.card").length
const watch = new MutationObserver(() => {
  const cards = document.querySelectorAll('[data-testid="stApp"] article.card')
  const isDrawn = cards.length >= count && getComputedStyle(cards[0]).visibility === "visible"
  if (!isDrawn && root.classList.contains("fresh")) return
  watch.disconnect()
  early.remove()
})
watch.observe(root, {subtree: true, childList: true, attributes: true, attributeFilter: ["class"]})
</script>"""
"""Removes the rows when those of the page are drawn in the same place."""


def build_early_cards(visitor: str) -> str:
    """Return the markup of the first rows for ``visitor``.

    Empty unless there are many experiments. Rows that are not read yet show the name. If an earlier
    server has listed the experiments, all cards of these rows must be current.
    """
    listing = list_known_experiments(visitor)
    if listing is None or len(listing.entries) <= MAX_OPENED:
        return ""
    entries = list(islice(listing.entries.values(), _ROWS))
    # Colours of another theme are not visible in a table.
    FIRST_CARDS.load_cached_cards([entry.path for entry in entries], "light")
    rows = [format_table_head({})]
    for entry in entries:
        card = FIRST_CARDS.find_current_card(entry.path, "light") or FIRST_CARDS.find_current_card(
            entry.path, None
        )
        if card is not None:
            rows.append(format_row(entry.name, card))
        elif listing.is_from_cache:
            # The experiment may not exist any more.
            return ""
        else:
            rows.append(format_heading(entry.name))
    table = format_element("div", format_element("div", "".join(rows), **{"data-testid": "stHtml"}))
    heading = format_element("div", format_title(listing), **{"data-testid": "stHtml"})
    content = heading + format_element("div", table, "st-key-card-table")
    return format_element("div", _ROOT_STYLE + content, "early") + _REMOVAL_SCRIPT
