"""What ``graphviz-dash serve`` asks of the server that it starts, by the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from graphviz_dash.errors import InputError
from graphviz_dash.process_memory import machine_memory

TOKEN_VARIABLE: Final = "GRAPHVIZ_DASH_TOKEN"
"""The token that requests have to show; ``none`` where none is to be asked for."""
_NO_TOKEN: Final = "none"
HOSTS_VARIABLE: Final = "GRAPHVIZ_DASH_ALLOWED_HOSTS"
"""Names of hosts, separated by commas, by which the server may be addressed besides its own."""
STARTED_IN_VARIABLE: Final = "GRAPHVIZ_DASH_STARTED_IN"
"""The folder in which the command was given, from which pages name others."""
SUPERVISED_VARIABLE: Final = "GRAPHVIZ_DASH_SUPERVISED"
"""Set to 1 where standard input is a pipe whose end means that whoever started the server died."""
MEMORY_VARIABLE: Final = "GRAPHVIZ_DASH_MEMORY"
"""Bytes of memory that the server may take before it drops what nobody has looked at."""
SCRATCH_NAME: Final = "graphviz-dash-server"
"""What the server's folder in the system's temporary folder is called after."""


_MACHINE: Final = 16 << 30
"""Bytes of memory of a machine that does not say."""


class ServerSettings(Struct, frozen=True):
    """How the server is reached, and by whom it was started."""

    token: str | None = None
    """What requests have to show; None without one."""
    asks_token: bool | None = None
    """Whether a token is asked for; None leaves that to the address it listens on."""
    hosts: tuple[str, ...] = ()
    """Names by which it may be addressed besides its own, such as that of a reverse proxy."""
    supervised: bool = False
    """Whether it ends when its standard input does."""
    memory_bytes: int | None = None
    """What it may take of memory before it drops experiments that nobody looks at; None leaves that
    to the machine."""

    def variables(self) -> dict[str, str]:
        """The settings as variables of an environment."""
        return {
            TOKEN_VARIABLE: _NO_TOKEN if self.asks_token is False else self.token or "",
            HOSTS_VARIABLE: ",".join(self.hosts),
            SUPERVISED_VARIABLE: "1" if self.supervised else "",
            MEMORY_VARIABLE: "" if self.memory_bytes is None else str(self.memory_bytes),
        }


def settings_of(environment: Mapping[str, str] = os.environ) -> ServerSettings:
    """The settings that ``environment`` holds.

    Raises:
        InputError: MEMORY_VARIABLE is no number of bytes.
    """
    hosts = (name.strip().lower() for name in environment.get(HOSTS_VARIABLE, "").split(","))
    token = environment.get(TOKEN_VARIABLE) or None
    refused = token == _NO_TOKEN
    return ServerSettings(
        token=None if refused else token,
        asks_token=False if refused else (True if token else None),
        hosts=tuple(name for name in hosts if name),
        supervised=environment.get(SUPERVISED_VARIABLE) == "1",
        memory_bytes=_memory(environment.get(MEMORY_VARIABLE, "")),
    )


def _memory(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text)):
        raise InputError(MEMORY_VARIABLE, repr(text), "a number of bytes, such as 4000000000")
    return int(text)


def memory_bound(environment: Mapping[str, str] = os.environ) -> int:
    """The bytes of memory that the server may take before it drops what nobody has looked at for
    the longest: as ``environment`` says, else half of the machine's."""
    return settings_of(environment).memory_bytes or (machine_memory() or _MACHINE) // 2
