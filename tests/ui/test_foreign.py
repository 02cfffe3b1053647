"""No page, in either theme, asks another host for anything."""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.sync_api import Browser, Route, expect

from graphviz_dash.ui.page.navigation import NAMES
from tests.ui.waits import idle

pytestmark = pytest.mark.ui


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_asks_this_server_alone(
    browser: Browser, dashboard: str, theme: Literal["light", "dark"]
) -> None:
    context = browser.new_context(color_scheme=theme)
    asked: list[str] = []
    own = (f"{dashboard}/", "data:", "blob:")

    def refused(route: Route) -> None:
        asked.append(route.request.url)
        route.abort()

    context.route(lambda url: not url.startswith(own), refused)
    page = context.new_page()
    page.on("websocket", lambda one: own_socket(one.url))

    def own_socket(address: str) -> None:
        if not address.startswith(dashboard.replace("http", "ws")):
            asked.append(address)

    for name in NAMES:
        # Each by its address, as a new visitor comes to it.
        page.goto(f"{dashboard}/{name}?experiment=mlp-train")
        expect(page.locator(".st-key-page-current")).to_be_visible()
        idle(page)
    context.close()
    assert asked == []
