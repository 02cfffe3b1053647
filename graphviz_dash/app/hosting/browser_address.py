"""Track the page and query that each browser shows.

Streamlit's front end asks for the page and query it last received. Messages during a page change
would otherwise rerun the page just left, or revert a choice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from msgspec import Struct

if TYPE_CHECKING:
    from streamlit.proto.ClientState_pb2 import ClientState
    from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
    from streamlit.runtime.app_session import AppSession

_PATCHED: Final = "_keeps_its_address"


class _Address(Struct):
    """Current location of a browser."""

    request: ClientState
    query: str
    """Query after the browser has processed all messages."""


_ADDRESSES: Final[WeakKeyDictionary[AppSession, _Address]] = WeakKeyDictionary()
"""Accessed only from the thread of the event loop."""


def patch_sessions() -> None:
    """Restrict page changes to links, Back, Forward and new documents.

    Only those and the page scripts change the query of a session.

    Raises:
        ImportError, AttributeError: This version of Streamlit lacks a name.
    """
    from streamlit.proto.ClientState_pb2 import ClientState
    from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
    from streamlit.runtime.app_session import AppSession

    _check_fields(ClientState(), "query_string", "page_script_hash", "is_history_navigation")
    _check_fields(ForwardMsg(), "page_info_changed")
    _check_fields(ForwardMsg().page_info_changed, "query_string")
    request, send = AppSession.request_rerun, AppSession._enqueue_forward_msg
    if hasattr(request, _PATCHED):
        return

    def request_at_address(self: AppSession, client_state: ClientState | None) -> None:
        request(self, None if client_state is None else _redirect(self, client_state))

    def send_and_record(self: AppSession, msg: ForwardMsg) -> None:
        address = _ADDRESSES.get(self)
        if address is not None and msg.WhichOneof("type") == "page_info_changed":
            address.query = msg.page_info_changed.query_string
        send(self, msg)

    setattr(request_at_address, _PATCHED, True)
    AppSession.request_rerun = request_at_address  # type: ignore[method-assign]
    AppSession._enqueue_forward_msg = send_and_record  # type: ignore[method-assign]


def _check_fields(message: Any, *names: str) -> None:
    for name in names:
        getattr(message, name)


def _redirect(session: AppSession, request: ClientState) -> ClientState:
    """Return the request at the browser's current address, even from a page that was left."""
    address = _ADDRESSES.get(session)
    if address is None or request.is_history_navigation or not request.page_script_hash:
        _ADDRESSES[session] = _Address(request, request.query_string)
        return request
    is_left = address.request.page_script_hash not in ("", request.page_script_hash)
    redirected = type(request)()
    redirected.CopyFrom(address.request if is_left else request)
    redirected.query_string = address.query
    return redirected
