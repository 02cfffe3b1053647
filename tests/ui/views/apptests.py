"""Pages run by themselves, without a browser, and what tests look for on them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from html import escape, unescape
from inspect import getsource
from pathlib import Path
from typing import Any, NamedTuple

from streamlit.testing.v1 import AppTest

from graphviz_dash.model.run import Failure, Pass
from graphviz_dash.narrative.answer import Answer
from graphviz_dash.ui.page.registry import PAGES as PAGE_ROWS

LookIn = Callable[[Path], Path]

PAGES = (
    *("overview", "compare", "graphs", "graph", "timeline", "memory", "ranks", "doctor"),
    "export",
)
HARM = '<img src="x" onerror="alert(1)"> ![a](http:x.example) \x1b[31m **bold** :material/home:'
FAILURE = Failure(
    Pass.CLEAN,
    "RuntimeError",
    "operation not permitted when stream is capturing\nmore",
    "model.py:15",
    "Traceback (most recent call last):\n  model.py:15\nRuntimeError: no",
)


def _show(name: str) -> None:
    """One page with its bar, as script.py shows it."""
    import streamlit as st

    from graphviz_dash.app.compare.page import page as compare
    from graphviz_dash.app.overview import page as overview
    from graphviz_dash.app.report import page as export
    from graphviz_dash.features.doctor import page as doctor
    from graphviz_dash.features.graph.page import page as graph
    from graphviz_dash.features.ladder.page import page as graphs
    from graphviz_dash.features.launch.page import page as launch
    from graphviz_dash.features.memory.page import page as memory
    from graphviz_dash.features.ranks import page as ranks
    from graphviz_dash.features.timeline.page import page as timeline
    from graphviz_dash.features.torch_compile.page import page as compiled
    from graphviz_dash.ui.page import url_state
    from graphviz_dash.ui.page.frame import draw_top_bar
    from graphviz_dash.ui.page.navigation import list_pages

    st.navigation(list_pages(), position="hidden")
    url_state.sync_address()
    draw_top_bar(name)
    views = {
        "overview": overview,
        "compare": compare,
        "graph": graph,
        "graphs": graphs,
        "timeline": timeline,
        "compile": compiled,
        "memory": memory,
        "ranks": ranks,
        "launch": launch,
        "doctor": doctor,
        "export": export,
    }
    try:
        views[name].render()
    finally:
        url_state.remember_address(name)


_SCRIPT = f"{getsource(_show)}\n_show(**__kwargs)\n"
"""Read once: ``AppTest.from_function`` parses this module for each page."""


def shown(name: str, **parameters: Any) -> AppTest:
    """The page ``name`` at an address with these parameters, without an exception on it."""
    page = AppTest.from_string(_SCRIPT, default_timeout=100)
    page.kwargs = {"name": name}
    page.query_params.update(parameters)
    return rerun(page)


@cache
def show_sample(name: str, experiment: str, **parameters: str) -> AppTest:
    """The page ``name`` of a sample, drawn once in each process. The pages look in the folder of
    the sample, and no test changes the page.
    """
    return shown(name, experiment=experiment, **parameters)


def rerun(changed: Any) -> AppTest:
    """Return the page after another run of its script; ``changed`` is the page, or a changed
    widget.
    """
    page: AppTest = changed.run()
    assert [error.value for error in page.exception] == []
    return page


def markup(page: AppTest) -> str:
    """Return all HTML of the page without style sheets."""
    pieces = [str(piece.value) for piece in page.get("html")]
    return "\n".join(
        piece
        for piece in pieces
        if "<style" not in piece
        and 'class="brand"' not in piece
        and "data-palette" not in piece
        and not piece.startswith("<nav")
    )


class Link(NamedTuple):
    label: str
    page: str
    query: str
    reason: str
    """Reason if nothing is shown there."""


def page_links(page: AppTest) -> list[Link]:
    """The links to pages, in the order of the page, its bar first."""
    pieces = "".join(str(piece.value) for piece in page.get("html"))
    return [
        Link(unescape(label), unescape(path) or "overview", unescape(query), unescape(reason))
        for path, query, reason, label in _LINK.findall(pieces)
    ]


_LINK = re.compile(
    r'<a class="to-page[^>]*? href="\./([^"?]*)\??([^"]*)"(?: title="([^"]*)")?[^>]*>'
    r"(?:<i[^>]*></i>)?<span>([^<]*)</span></a>"
)


NAVIGATION = sum(not page.tab_of for page in PAGE_ROWS.values())
"""Number of links in the bar; a tab is reached from its page."""


def links(page: AppTest) -> dict[str, str]:
    """Query strings of the bar's links, by label."""
    return {link.label: link.query for link in page_links(page)[:NAVIGATION]}


def chosen(page: AppTest, key: str) -> Any:
    return next(group for group in page.button_group if group.key == f"choice-{key}-0")


def assert_answers(page: AppTest, answer: Answer | None) -> None:
    """The page says the answer first, and every figure of it leads to its evidence, which is on the
    page."""
    told = markup(page)
    assert answer
    anchors = {heading.proto.anchor for heading in page.header}
    anchors |= set(re.findall(r' id="([^"]+)"', told))
    pieces = [*answer.verdict, *(piece for _, parts in answer.rows for piece in parts)]
    for piece in pieces:
        if piece.page is not None:
            continue
        wanted = escape(piece.text)
        assert (f">{wanted}</a>" if piece.evidence else wanted) in told
        assert piece.evidence or not re.search(r"\d", piece.text)
    led = re.findall(r'href="#([^"]+)"', told)
    assert len(led) == sum(piece.evidence is not None for piece in pieces)
    assert set(led) <= anchors
