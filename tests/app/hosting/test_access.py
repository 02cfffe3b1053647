from __future__ import annotations

import socket

import pytest

from graphviz_dash.app.hosting.access import allows_origin, build_access, parse_host_name
from graphviz_dash.server_settings import ServerSettings

OWN = build_access("127.0.0.1", ServerSettings(hosts=("dash.example",)))
OPEN = build_access("0.0.0.0", ServerSettings(token="secret", requires_token=True))


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("localhost:8501", "localhost"),
        ("LOCALHOST.", "localhost"),
        ("[::1]:8501", "::1"),
        ("evil.example@127.0.0.1", None),
        ("127.0.0.1/path", None),
        ("127.0.0.1:port", None),
        ("local host", None),
        ("[::1", None),
        ("", None),
        (None, None),
    ],
)
def test_the_name_of_a_host(host: str | None, name: str | None) -> None:
    assert parse_host_name(host) == name


@pytest.mark.parametrize(
    ("host", "here", "anywhere"),
    [
        ("localhost:8501", True, True),
        ("127.0.0.1:8501", True, True),
        ("127.1.2.3", True, True),
        ("[::1]:8501", True, True),
        ("dash.example", True, False),
        ("192.0.2.1:8501", False, True),
        ("[2001:db8::1]", False, True),
        (f"{socket.gethostname()}:8501", False, True),
        ("evil.example:8501", False, False),
        ("127.0.0.1.evil.example", False, False),
        ("localhost.evil.example", False, False),
        ("sub.dash.example", False, False),
        ("0.0.0.0:8501", False, True),
        (None, False, False),
    ],
)
def test_names_that_cannot_be_rebound_are_let_in(
    host: str | None, here: bool, anywhere: bool
) -> None:
    assert OWN.allows_host(host) is here
    assert OPEN.allows_host(host) is anywhere


@pytest.mark.parametrize(
    ("origin", "host", "allowed"),
    [
        (None, "localhost:8501", True),
        ("http://localhost:8501", "localhost:8501", True),
        ("http://LOCALHOST:8501", "localhost:8501", True),
        ("https://dash.example", "dash.example", True),
        ("https://dash.example", "dash.example:443", True),
        ("http://dash.example:80", "dash.example", True),
        ("http://[::1]:8501", "[::1]:8501", True),
        ("http://localhost:9999", "localhost:8501", False),
        ("http://127.0.0.1:8501", "localhost:8501", False),
        ("https://evil.example", "localhost:8501", False),
        ("https://app.streamlit.app", "localhost:8501", False),
        ("null", "localhost:8501", False),
        ("file://", "localhost:8501", False),
        ("http://localhost:port", "localhost:8501", False),
        ("", "localhost:8501", False),
    ],
)
def test_only_our_own_pages_ask(origin: str | None, host: str, allowed: bool) -> None:
    assert allows_origin(origin, host) is allowed


def test_off_this_machine_a_token_is_asked_for_even_where_none_was_given() -> None:
    assert build_access("127.0.0.1", ServerSettings()).token is None
    assert build_access("127.0.0.1", ServerSettings(token="a", requires_token=True)).token == "a"
    for address in ("0.0.0.0", "192.0.2.1", None):
        first, second = (build_access(address, ServerSettings()).token for _ in range(2))
        assert first is not None
        assert first != second
    assert build_access("0.0.0.0", ServerSettings(requires_token=False)).token is None
