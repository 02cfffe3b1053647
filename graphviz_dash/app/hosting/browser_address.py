"""Where a session's browser is: where its last link, Back or document led, and what it was told
since.

Streamlit's front end has the server run the page that it last heard of, under the address that it
last heard of. What a component or a widget sends while an answer is on its way would have the
server run the page that the visitor has just left, or take back what he has just chosen.
"""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

from msgspec import Struct
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.app_session import AppSession

_KEEPS: Final = "_keeps_its_address"


class _Address(Struct):
    """Where a browser is."""

    way: ClientState
    """The request that led to its page."""
    query: str
    """As it will be once it has heard all that it was told."""


_ADDRESSES: Final[WeakKeyDictionary[AppSession, _Address]] = WeakKeyDictionary()
"""Read and written by the thread of the server's event loop alone."""


def keep_addresses() -> None:
    """From now on only a link, Back, Forward or a new document brings a session to another page,
    and only they and the scripts of its pages change its query."""
    request, send = AppSession.request_rerun, AppSession._enqueue_forward_msg
    if hasattr(request, _KEEPS):
        return

    def request_there(self: AppSession, client_state: ClientState | None) -> None:
        request(self, None if client_state is None else _there(self, client_state))

    def send_and_note(self: AppSession, msg: ForwardMsg) -> None:
        address = _ADDRESSES.get(self)
        if address is not None and msg.WhichOneof("type") == "page_info_changed":
            address.query = msg.page_info_changed.query_string
        send(self, msg)

    setattr(request_there, _KEEPS, True)
    AppSession.request_rerun = request_there  # type: ignore[method-assign]
    AppSession._enqueue_forward_msg = send_and_note  # type: ignore[method-assign]


def _there(session: AppSession, asked: ClientState) -> ClientState:
    """What is asked, at the address of the session's browser; from a page that was left, the way to
    the page that it was left for."""
    address = _ADDRESSES.get(session)
    if address is None or asked.is_history_navigation or not asked.page_script_hash:
        _ADDRESSES[session] = _Address(asked, asked.query_string)
        return asked
    is_left = address.way.page_script_hash not in ("", asked.page_script_hash)
    there = ClientState()
    there.CopyFrom(address.way if is_left else asked)
    there.query_string = address.query
    return there
