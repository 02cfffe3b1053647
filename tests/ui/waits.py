"""What the tests in a browser wait for."""

from __future__ import annotations

from playwright.sync_api import Page, WebSocketRoute, expect


def idle(page: Page) -> None:
    """Waits until the page's script has run: what is clicked while it does may be drawn anew."""
    ready = '[data-testid="stApp"][data-test-script-state="notRunning"]'
    expect(page.locator(ready)).to_be_visible()


class Answers:
    """What the server sends to a page that is opened afterwards: held back from :meth:`hold` on,
    until :meth:`release`."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._held: list[str | bytes] = []
        self._sockets: list[WebSocketRoute] = []
        self._holding = False
        self._before = 0
        page.route_web_socket("**/_stcore/stream*", self._opened)

    def hold(self) -> None:
        """Lets nothing more through."""
        self._holding = True
        self._before = len(self._held)

    def wait(self) -> None:
        """Waits until something is held back that was not when :meth:`hold` was called."""
        while len(self._held) == self._before:
            self._page.wait_for_timeout(20)

    def release(self) -> None:
        """Sends what was held back, and all that follows."""
        self._holding = False
        held, self._held = self._held, []
        for message in held:
            self._sockets[-1].send(message)

    def _opened(self, socket: WebSocketRoute) -> None:
        self._sockets.append(socket)
        socket.connect_to_server().on_message(self._heard)

    def _heard(self, message: str | bytes) -> None:
        if self._holding:
            self._held.append(message)
        else:
            self._sockets[-1].send(message)
