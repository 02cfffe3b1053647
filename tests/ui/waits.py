"""What the tests in a browser wait for."""

from __future__ import annotations

from collections.abc import Collection

from playwright.sync_api import Page, WebSocketRoute, expect
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg


def idle(page: Page) -> None:
    """Waits until the page's script has run: what is clicked while it does may be drawn anew."""
    ready = '[data-testid="stApp"][data-test-script-state="notRunning"]'
    expect(page.locator(ready)).to_be_visible()


class Answers:
    """What the server sends to a page that is opened afterwards: held back from :meth:`hold` on,
    until :meth:`release`."""

    def __init__(self, page: Page) -> None:
        self.addresses: list[str] = []
        """Queries that were said to be the page's since :meth:`hold` was called."""
        self._page = page
        self._held: list[str | bytes] = []
        self._sockets: list[WebSocketRoute] = []
        self._holding = False
        self._passing: Collection[str] = ()
        self._kinds: list[str | None] = []
        page.route_web_socket("**/_stcore/stream*", self._opened)

    def hold(self, passing: Collection[str] = ()) -> None:
        """Lets nothing more through but messages of the kinds ``passing``."""
        self._holding = True
        self._passing = passing
        self.addresses, self._kinds = [], []

    def wait(self, kind: str | None = None) -> None:
        """Waits until a message, of a ``kind`` if one is named, is held back that was not when
        :meth:`hold` was called."""
        while not self._kinds or (kind is not None and kind not in self._kinds):
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
            assert isinstance(message, bytes)
            heard = ForwardMsg.FromString(message)
            kind = heard.WhichOneof("type")
            if kind == "page_info_changed":
                self.addresses.append(heard.page_info_changed.query_string)
            if kind not in self._passing:
                self._held.append(message)
                self._kinds.append(kind)
                return
        self._sockets[-1].send(message)
