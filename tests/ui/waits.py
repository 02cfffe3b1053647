from __future__ import annotations

import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from playwright.sync_api import Locator, Page, TimeoutError, WebSocketRoute, expect
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from graphviz_dash.ui.page.registry import PAGES
from tests.chromium import PATIENCE_MS
from tests.serving import print_server_stacks


def idle(page: Page) -> None:
    """Wait until the page's script has run, because it may draw elements again.

    Prints the browser's state and the server's stacks if that takes too long. An assertion would
    describe the whole page for screen readers at each retry.
    """
    ready = '[data-testid="stApp"][data-test-script-state="notRunning"]'
    try:
        page.locator(ready).wait_for(timeout=PATIENCE_MS)
    except TimeoutError:
        state = page.get_by_test_id("stApp").get_attribute("data-test-script-state")
        print(f"Script state in the browser: {state}", file=sys.stderr)
        print_server_stacks()
        raise


def at_page(page: Page, name: str) -> None:
    """Wait until the page that a link led to is complete.

    The address changes first, while the page before is still shown.
    """
    title = PAGES[PAGES[name].tab_of or name].title
    expect(page.locator(".pages [aria-current]")).to_have_text(title)
    idle(page)


@contextmanager
def shown_for_a_moment(element: Locator) -> Iterator[None]:
    """Wait after the block until a hidden element was shown in it, even if it is hidden again."""
    handle = element.element_handle()
    handle.evaluate(
        """element => new MutationObserver(() => { element.wasShown ||= !element.hidden })
          .observe(element, {attributes: true})"""
    )
    yield
    element.page.wait_for_function("element => element.wasShown", arg=handle)


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
        end_s = time.monotonic() + PATIENCE_MS / 1000
        while not self._kinds or (kind is not None and kind not in self._kinds):
            assert time.monotonic() < end_s, f"no {kind or 'message'} came, but {self._kinds}"
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
