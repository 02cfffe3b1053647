"""Control access to the server by host name, origin and token.

A page of another site can reach a local server in two ways. Its script can send requests without
reading the answers; ``Origin`` reveals this. Or its name can resolve to this machine (DNS
rebinding); only ``Host`` reveals this. Numeric addresses cannot be rebound, names can.
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

from graphviz_dash.server_settings import ServerSettings, is_loopback, read_settings

_LOOPBACK_NAME: Final = "localhost"
_DEFAULT_PORTS: Final = {"http": "80", "https": "443", "ws": "80", "wss": "443"}


class Access(Struct, frozen=True):
    """Requirements for a request."""

    loopback: bool
    """True if the server listens on a loopback address only."""
    names: frozenset[str]
    """Accepted host names besides loopback addresses, in lower case."""
    token: str | None
    """None if no token is required."""

    def allows_host(self, host: str | None) -> bool:
        """Check the value of a request's ``Host`` header."""
        name = parse_host_name(host)
        if name is None:
            return False
        if name == _LOOPBACK_NAME or name in self.names:
            return True
        address = _parse_address(name)
        return address is not None and (address.is_loopback or not self.loopback)


def allows_origin(origin: str | None, host: str | None) -> bool:
    """Check that a request comes from our own pages, or from no page."""
    if origin is None:
        return True
    try:
        parts = urlsplit(origin)
        port = parts.port
    except ValueError:
        return False
    name, local_port = parse_host_name(host), _parse_port(host)
    default = _DEFAULT_PORTS.get(parts.scheme)
    if default is None or name is None or parts.hostname is None:
        return False
    same_name = parts.hostname.rstrip(".") == name
    # Behind a TLS proxy the host has no port, or the one of the outer scheme.
    return same_name and str(port or default) == (local_port or default)


def parse_host_name(host: str | None) -> str | None:
    """Parse the name in a ``Host`` header, in lower case without port, brackets and final dot.

    None if the header is invalid.
    """
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


def _parse_port(host: str | None) -> str | None:
    port = urlsplit(f"//{host}").port
    return None if port is None else str(port)


def _parse_address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def build_access(address: str | None, settings: ServerSettings) -> Access:
    """Build the access rules of a server on ``address``, None for all addresses.

    Off loopback a token is required: the one from ``settings``, or a generated one.
    """
    loopback = address is not None and is_loopback(address)
    names = {address.lower()} if address else set()
    if not loopback:
        names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
    token = settings.token
    if token is None and settings.requires_token is not False and not loopback:
        token = secrets.token_urlsafe(24)
    return Access(loopback, frozenset(names | set(settings.hosts)), token)


@cache
def get_access() -> Access:
    """Return the access rules from Streamlit's settings and the environment."""
    settings = read_settings()
    address = st.get_option("server.address")
    rules = build_access(address, settings)
    if rules.token is not None and rules.token != settings.token:
        port = st.get_option("server.port")
        host = address if address not in (None, "0.0.0.0", "::") else socket.gethostname()
        print(f"http://{host}:{port}/?token={rules.token}", file=sys.stderr)
    return rules
