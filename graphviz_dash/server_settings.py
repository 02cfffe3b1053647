"""What ``graphviz-dash serve`` asks of the server that it starts, by the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

TOKEN_VARIABLE: Final = "GRAPHVIZ_DASH_TOKEN"
"""The token that requests have to show; ``none`` where none is to be asked for."""
_NO_TOKEN: Final = "none"
HOSTS_VARIABLE: Final = "GRAPHVIZ_DASH_ALLOWED_HOSTS"
"""Names of hosts, separated by commas, by which the server may be addressed besides its own."""
SUPERVISED_VARIABLE: Final = "GRAPHVIZ_DASH_SUPERVISED"
"""Set to 1 where standard input is a pipe whose end means that whoever started the server died."""
SCRATCH_NAME: Final = "graphviz-dash-server"
"""What the server's folder in the system's temporary folder is called after."""


@dataclass(frozen=True)
class ServerSettings:
    """How the server is reached, and by whom it was started."""

    token: str | None = None
    """What requests have to show; None without one."""
    asks_token: bool | None = None
    """Whether a token is asked for; None leaves that to the address it listens on."""
    hosts: tuple[str, ...] = ()
    """Names by which it may be addressed besides its own, such as that of a reverse proxy."""
    supervised: bool = False
    """Whether it ends when its standard input does."""

    def variables(self) -> dict[str, str]:
        """The settings as variables of an environment."""
        return {
            TOKEN_VARIABLE: _NO_TOKEN if self.asks_token is False else self.token or "",
            HOSTS_VARIABLE: ",".join(self.hosts),
            SUPERVISED_VARIABLE: "1" if self.supervised else "",
        }


def settings_of(environment: Mapping[str, str] = os.environ) -> ServerSettings:
    """The settings that ``environment`` holds."""
    hosts = (name.strip().lower() for name in environment.get(HOSTS_VARIABLE, "").split(","))
    token = environment.get(TOKEN_VARIABLE) or None
    refused = token == _NO_TOKEN
    return ServerSettings(
        token=None if refused else token,
        asks_token=False if refused else (True if token else None),
        hosts=tuple(name for name in hosts if name),
        supervised=environment.get(SUPERVISED_VARIABLE) == "1",
    )
