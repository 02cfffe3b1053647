from __future__ import annotations

import re
from collections.abc import Iterator

from graphviz_dash.app.hosting.document import STYLE

FEW = re.compile(r"[.#\[]")
"""A class, an id or an attribute, which few elements have."""


def list_selectors(style: str) -> Iterator[str]:
    """Yield the selectors of all rules."""
    for prelude in re.findall(r"([^{}]+)\{", re.sub(r"/\*.*?\*/", "", style, flags=re.S)):
        yield from split_outside_brackets(prelude, ",")


def split_outside_brackets(text: str, separators: str) -> list[str]:
    parts, depth = [""], 0
    for character in text.strip():
        depth += (character in "([") - (character in ")]")
        if character in separators and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part for part in parts if part.strip()]


def find_costly_part(selector: str) -> str | None:
    """Return the part of a selector that makes changes of a page costly; None if there is none.

    Chromium checks ``:has()`` without a class or attribute for all elements. A ``:has()`` before
    the last part restyles everything inside its element.
    """
    *before, last = split_outside_brackets(selector, " \n>+~")
    costly = next((part for part in before if ":has(" in part), None)
    if costly is None and ":has(" in last:
        start = last[: last.index(":has(")]
        return None if FEW.search(start) or start in ("tr", "section") else last
    return costly


def test_changes_of_a_page_restyle_few_elements() -> None:
    selectors = list(list_selectors(STYLE.read_text(encoding="utf-8")))
    assert sum(":has(" in selector for selector in selectors) > 10
    assert [selector for selector in selectors if find_costly_part(selector)] == []


def test_costly_selectors_are_found() -> None:
    for costly in (
        "html:has(.early)",
        ":root:has(.said .lines)",
        ":has(> input:focus)",
        ".fresh main:has([x]:not(.a *, .b *) > [y]) label",
        "[x]:has(> .said) ~ [x]",
    ):
        assert find_costly_part(costly) is not None, costly
    for cheap in ("table.figures tr:has(abbr:target)", ".a > [b]:has(> [c] d)", ".a > b"):
        assert find_costly_part(cheap) is None, cheap


def test_text_of_limited_lines_ends_with_an_ellipsis() -> None:
    """A height limit in ``em`` with hidden overflow cuts text within a sentence, without a sign."""
    rules = re.findall(r"([^{}]+)\{([^{}]*)\}", STYLE.read_text(encoding="utf-8"))
    cutting = [
        selector.strip()
        for selector, body in rules
        if re.search(r"max-height:\s*[\d.]+em", body) and re.search(r"overflow:\s*hidden", body)
    ]
    assert cutting == []
