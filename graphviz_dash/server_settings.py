"""Settings that ``graphviz-dash serve`` passes to the server in environment variables."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from graphviz_dash.errors import InputError
from graphviz_dash.process_memory import get_machine_memory

TOKEN_VARIABLE: Final = "GRAPHVIZ_DASH_TOKEN"
"""Token required from requests; ``none`` disables it."""
_NO_TOKEN: Final = "none"
HOSTS_VARIABLE: Final = "GRAPHVIZ_DASH_ALLOWED_HOSTS"
"""Additional host names of the server, separated by commas."""
STARTED_IN_VARIABLE: Final = "GRAPHVIZ_DASH_STARTED_IN"
"""Start folder of the command, to which displayed paths are relative."""
SUPERVISED_VARIABLE: Final = "GRAPHVIZ_DASH_SUPERVISED"
"""1 if standard input is a pipe that closes when the parent process dies."""
MEMORY_VARIABLE: Final = "GRAPHVIZ_DASH_MEMORY"
"""Memory limit in bytes, above which the server drops unused experiments."""
SCRATCH_NAME: Final = "graphviz-dash-server"
"""Name prefix of the server's temporary folder."""


_DEFAULT_MACHINE_BYTES: Final = 16 << 30
"""Assumed memory of a machine of unknown size, in bytes."""


class ServerSettings(Struct, frozen=True):
    """Address, token and start options of the server."""

    token: str | None = None
    """Token required from requests; None without one."""
    requires_token: bool | None = None
    """None decides by the address that the server listens on."""
    hosts: tuple[str, ...] = ()
    """Additional host names, such as that of a reverse proxy."""
    supervised: bool = False
    """Whether the server stops when its standard input closes."""
    memory_bytes: int | None = None
    """None decides by the machine."""

    def format_variables(self) -> dict[str, str]:
        """Return the settings as environment variables."""
        return {
            TOKEN_VARIABLE: _NO_TOKEN if self.requires_token is False else self.token or "",
            HOSTS_VARIABLE: ",".join(self.hosts),
            SUPERVISED_VARIABLE: "1" if self.supervised else "",
            MEMORY_VARIABLE: "" if self.memory_bytes is None else str(self.memory_bytes),
        }


def read_settings(environment: Mapping[str, str] = os.environ) -> ServerSettings:
    """Read the settings from ``environment``.

    Raises:
        InputError: MEMORY_VARIABLE is not a number of bytes.
    """
    hosts = (name.strip().lower() for name in environment.get(HOSTS_VARIABLE, "").split(","))
    token = environment.get(TOKEN_VARIABLE) or None
    is_disabled = token == _NO_TOKEN
    return ServerSettings(
        token=None if is_disabled else token,
        requires_token=False if is_disabled else (True if token else None),
        hosts=tuple(name for name in hosts if name),
        supervised=environment.get(SUPERVISED_VARIABLE) == "1",
        memory_bytes=_parse_memory(environment.get(MEMORY_VARIABLE, "")),
    )


def _parse_memory(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text)):
        raise InputError(MEMORY_VARIABLE, repr(text), "a number of bytes, such as 4000000000")
    return int(text)


def get_memory_limit(environment: Mapping[str, str] = os.environ) -> int:
    """Return the memory limit in bytes: from ``environment``, or half of the machine's memory."""
    return (
        read_settings(environment).memory_bytes
        or (get_machine_memory() or _DEFAULT_MACHINE_BYTES) // 2
    )


def is_loopback(host: str) -> bool:
    """Check for an address or name that only this machine can reach."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
