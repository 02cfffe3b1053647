"""What the tests in a browser wait for."""

from __future__ import annotations

from playwright.sync_api import Page, expect


def idle(page: Page) -> None:
    """Waits until the page's script has run: what is clicked while it does may be drawn anew."""
    ready = '[data-testid="stApp"][data-test-script-state="notRunning"]'
    expect(page.locator(ready)).to_be_visible()
