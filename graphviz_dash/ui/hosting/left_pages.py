"""A page that was left is not run again.

Streamlit's front end has the server run the page that it last heard of. What a component or a
widget sends between a click on a link and the first word of the page it leads to would have the
server run the page that the visitor has just left, under the address of the other.
"""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.runtime.app_session import AppSession

_KEEPS: Final = "_keeps_to_its_page"
_WENT: Final[WeakKeyDictionary[AppSession, ClientState]] = WeakKeyDictionary()
"""How each session went to the page that its browser is at; none before its first link or Back."""


def keep_to_pages() -> None:
    """From now on only a link, Back, Forward or a new document brings a session to another page:
    what still comes from a page that was left begins the one that it was left for anew."""
    request = AppSession.request_rerun
    if hasattr(request, _KEEPS):
        return

    def request_of_page(self: AppSession, client_state: ClientState | None) -> None:
        if client_state is not None:
            client_state = _of_page(self, client_state)
        request(self, client_state)

    setattr(request_of_page, _KEEPS, True)
    AppSession.request_rerun = request_of_page  # type: ignore[method-assign]


def _of_page(session: AppSession, asked: ClientState) -> ClientState:
    """What is asked, or the way to the page that the browser is at if that is another."""
    if asked.is_history_navigation:
        _WENT[session] = asked
    elif not asked.page_script_hash:
        # A document that was loaded anew names its page.
        _WENT.pop(session, None)
    went = _WENT.get(session, asked)
    return asked if went.page_script_hash == asked.page_script_hash else went
