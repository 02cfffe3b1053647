from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal

from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request, WebSocket

Theme = Literal["light", "dark"]

THEMES: Final[tuple[Theme, ...]] = ("light", "dark")


@contextmanager
def tab(
    visitor: BrowserContext,
    width: int = 1280,
    height: int = 860,
    theme: Theme = "light",
    *,
    still: bool = False,
) -> Iterator[Page]:
    """A tab of a new visitor, closed after the test; ``still`` asks for no motion."""
    page = visitor.new_page()
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=theme, reduced_motion="reduce" if still else "no-preference")
    yield page
    page.evaluate("try { localStorage.clear() } catch { /* no page was opened */ }")
    page.close()
    visitor.clear_cookies()


class Overheard:
    def __init__(self, page: Page, address: str) -> None:
        self.errors: list[str] = []
        """Logged and thrown errors."""
        self.foreign: list[str] = []
        """Requests to other servers than ``address``."""
        own = (f"{address}/", address.replace("http", "ws"), "data:", "blob:")

        def ask(request: Request | WebSocket) -> None:
            if not request.url.startswith(own):
                self.foreign.append(request.url)

        def log(message: ConsoleMessage) -> None:
            if message.type == "error":
                self.errors.append(message.text)

        page.on("request", ask)
        page.on("websocket", ask)
        page.on("console", log)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
