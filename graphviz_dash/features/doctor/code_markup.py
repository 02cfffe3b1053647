"""Code around a line, as markup."""

from __future__ import annotations

from graphviz_dash.model.doctor import CodeLocation
from graphviz_dash.ui.page.markup import escape_html, format_element, format_text


def format_code(location: CodeLocation) -> str:
    """Format a line with its surroundings; only the location if no source is known."""
    location_markup = format_text("b", location.text)
    if location.function:
        location_markup += format_element("span", f" in {escape_html(location.function)}")
    if not location.lines:
        return format_element("div", location_markup, "where")
    rows = [
        format_element(
            "span",
            format_text("i", number) + escape_html(line or " "),
            "hit" if number == location.line else "",
        )
        for number, line in enumerate(location.lines, location.first_line)
    ]
    return format_element("div", location_markup, "where") + format_element(
        # Focusable, because it may scroll horizontally.
        "pre",
        "".join(rows),
        "code",
        tabindex="0",
        role="region",
        **{"aria-label": f"Code at {location.text}"},
    )
