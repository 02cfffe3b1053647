from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from graphviz_dash.analysis.metrics.registry import METRICS as REGISTERED
from graphviz_dash.documentation import (
    METRICS,
    RULES,
    SITE_FOLDER,
    SOURCES,
    build_place,
    get_site_path,
)
from graphviz_dash.model.compile_rules import COMPILE_RULES
from graphviz_dash.model.rules import RULES as CAPTURE_RULES
from graphviz_dash.ui.page.registry import PAGES
from scripts.documentation_site import ROOT, SECTIONS, list_site_files, stage_file
from tests.test_docs import anchors

PLACES = {
    **{f"help of {page.name}": page.help for page in PAGES.values()},
    **{f"metric {metric.id}": build_place(METRICS, metric.title) for metric in REGISTERED.values()},
    **{f"rule {rule.heading}": build_place(RULES, rule.heading) for rule in CAPTURE_RULES.values()},
    **{f"rule {rule.heading}": build_place(RULES, rule.heading) for rule in COMPILE_RULES.values()},
}
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "srcset"}
"""Attributes that make a browser load something, by element."""

needs_site = pytest.mark.skipif(
    not (SITE_FOLDER / "index.html").is_file(), reason="the site is not built: make site"
)


class Page(HTMLParser):
    def __init__(self, file: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.loads: list[str] = []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.ids.add(given["id"])
        if tag == "link" and given.get("rel") not in ("stylesheet", "icon", "preload"):
            return
        if LOADED.get(tag) in given:
            self.loads.append(given[LOADED[tag]])


@pytest.mark.parametrize("name", PLACES)
def test_a_link_leads_to_a_section(name: str) -> None:
    page, _, anchor = PLACES[name].partition("#")
    assert (SOURCES / page).is_file()
    assert not anchor or anchor in anchors(SOURCES / page)


def test_no_two_files_have_one_place_on_the_site() -> None:
    places = list(list_site_files().values())
    assert len(places) == len(set(places))
    assert "index.md" in places
    assert set(SECTIONS) >= {"reference"}


def test_a_link_to_a_section_of_the_readme_leads_there(tmp_path: Path) -> None:
    places = list_site_files()
    target = tmp_path / "index.md"
    stage_file(SOURCES / "index.md", target, places)
    link = re.search(r"\[Which drivers[^\]]*\]\(([^)]*)\)", target.read_text())
    assert link is not None
    assert link[1].endswith("project/about.md#tested")
    assert "tested" in anchors(ROOT / "README.md")


@needs_site
def test_links_into_the_built_site_lead_to_sections() -> None:
    pages: dict[str, Page] = {}
    for where in PLACES.values():
        path, _, anchor = get_site_path(where).partition("#")
        page = pages.setdefault(path, Page(SITE_FOLDER / path))
        assert not anchor or anchor in page.ids, where


@needs_site
def test_the_built_site_loads_nothing_from_other_hosts() -> None:
    foreign = {
        loaded
        for file in SITE_FOLDER.rglob("*.html")
        for loaded in Page(file).loads
        if re.match(r"(https?:)?//", loaded)
    }
    assert foreign == set()
    for sheet in SITE_FOLDER.rglob("*.css"):
        assert not re.search(r"url\(\s*[\"']?https?:|@import", sheet.read_text())
