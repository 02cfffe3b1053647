"""Links to the documentation, as markup."""

from __future__ import annotations

from graphviz_dash.documentation import address
from graphviz_dash.ui.page.markup import element
from graphviz_dash.ui.page.registry import PAGES


def page_heading(page: str, content: str) -> str:
    """The visible title of a page: ``content``, which is markup, and a link to the page's help."""
    icon = element("i", "", **{"data-icon": "help", "aria-hidden": "true"})
    label = f"Help: {PAGES[page].title}"
    return element("h1", content + docs_link(PAGES[page].help, icon, label, "page-help"))


def docs_link(where: str, content: str, label: str = "", kind: str = "to-docs") -> str:
    """A link around ``content``, which is markup, to a place of the documentation, in a new tab."""
    given = {"href": address(where), "target": "_blank"}
    if label:
        given |= {"title": label, "aria-label": label}
    return element("a", content, kind, **given)
