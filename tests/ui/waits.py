from __future__ import annotations

from collections.abc import Collection

from playwright.sync_api import Page, WebSocketRoute, expect
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg


def idle(page: Page) -> None:
    """Wait until the page's script has run, because it may draw elements again."""
    ready = '[data-testid="stApp"][data-test-script-state="notRunning"]'
    expect(page.locator(ready)).to_be_visible()


class Answers:
    """Messages of the server to the next page, held from :meth:`hold` to :meth:`release`."""

    def __init__(self, page: Page) -> None:
        self.addresses: list[str] = []
        """Queries reported as the page's since :meth:`hold`."""
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
        """Wait for a new held message, of ``kind`` if given."""
        while not self._kinds or (kind is not None and kind not in self._kinds):
            self._page.wait_for_timeout(20)

    def release(self) -> None:
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
