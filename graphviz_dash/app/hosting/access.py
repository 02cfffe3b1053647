"""Who may reach the server: by which names, from which pages, with which token.

A page of another site reaches a server of this machine in two ways. Its script asks for our
address, which the browser lets it send and not read; ``Origin`` tells that. Or its own name is made
to lead to this machine (DNS rebinding): then the browser takes us for its site, and only the
``Host`` that it names tells. Addresses in numbers cannot be rebound, names can.
"""

from __future__ import annotations

import ipaddress
import secrets
import socket
import sys
from functools import cache
from typing import Final
from urllib.parse import urlsplit

import streamlit as st
from msgspec import Struct

from graphviz_dash.server_settings import ServerSettings, settings_of

_LOOPBACK_NAME: Final = "localhost"
_DEFAULT_PORTS: Final = {"http": "80", "https": "443", "ws": "80", "wss": "443"}


class Access(Struct, frozen=True):
    """What is asked of a request."""

    loopback: bool
    """Whether the server listens on an address of this machine alone."""
    names: frozenset[str]
    """The names, in lower case, by which it may be addressed besides loopback addresses."""
    token: str | None
    """What a request has to show; None where none is asked for."""

    def allows_host(self, host: str | None) -> bool:
        """Whether a request may name ``host``, the value of its header, as whom it talks to."""
        name = host_name(host)
        if name is None:
            return False
        if name == _LOOPBACK_NAME or name in self.names:
            return True
        address = _address(name)
        return address is not None and (address.is_loopback or not self.loopback)


def allows_origin(origin: str | None, host: str | None) -> bool:
    """Whether a request that names ``host`` may come from a page of ``origin``: from our own, or,
    where it has none, from no page."""
    if origin is None:
        return True
    try:
        parts = urlsplit(origin)
        port = parts.port
    except ValueError:
        return False
    name, own_port = host_name(host), _port(host)
    default = _DEFAULT_PORTS.get(parts.scheme)
    if default is None or name is None or parts.hostname is None:
        return False
    same_name = parts.hostname.rstrip(".") == name
    # Behind a proxy that ends TLS the host names no port, or that of the scheme outside.
    return same_name and str(port or default) == (own_port or default)


def host_name(host: str | None) -> str | None:
    """The name in a ``Host`` header in lower case, without port, brackets and final dot; None for
    what is no host."""
    if not host:
        return None
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:
        return None
    extra = parts.path or parts.query or parts.fragment or parts.username or parts.password
    if extra or not parts.hostname or any(character.isspace() for character in host):
        return None
    return parts.hostname.rstrip(".")


def _port(host: str | None) -> str | None:
    port = urlsplit(f"//{host}").port
    return None if port is None else str(port)


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches a server that listens on ``address``."""
    if address == _LOOPBACK_NAME:
        return True
    number = _address(address)
    return number is not None and number.is_loopback


def access_of(address: str | None, settings: ServerSettings) -> Access:
    """Access to a server that listens on ``address``, None for all of the machine's. Off loopback
    it asks for a token: that of ``settings``, or one of its own where these were not given."""
    loopback = address is not None and is_loopback(address)
    own = {address.lower()} if address else set()
    if not loopback:
        own |= {socket.gethostname().lower(), socket.getfqdn().lower()}
    token = settings.token
    if token is None and settings.asks_token is not False and not loopback:
        token = secrets.token_urlsafe(24)
    return Access(loopback, frozenset(own | set(settings.hosts)), token)


@cache
def access() -> Access:
    """Access to this server, by Streamlit's settings and the environment."""
    settings = settings_of()
    address = st.get_option("server.address")
    made = access_of(address, settings)
    if made.token is not None and made.token != settings.token:
        port = st.get_option("server.port")
        host = address if address not in (None, "0.0.0.0", "::") else socket.gethostname()
        print(f"http://{host}:{port}/?token={made.token}", file=sys.stderr)
    return made
