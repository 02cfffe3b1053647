"""The life of the server: what it does once, before and beside answering."""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from graphviz_dash.ui.sockets import no_delay

_TURN_S: Final = 0.001
"""How long a thread that computes keeps the interpreter from one that answers; 5 ms by default, of
which an answer waits for several."""


@asynccontextmanager
async def life(_: object) -> AsyncIterator[dict[str, Any] | None]:
    """The life of the server, which by now has bound its socket."""
    no_delay()
    sys.setswitchinterval(_TURN_S)
    threading.Thread(target=prepare, name="graphviz-dash start", daemon=True).start()
    yield None


def prepare() -> None:
    """Finds out what the overview shows first, while the first visitor's browser still loads the
    scripts of a page."""
    from graphviz_dash.errors import InputError
    from graphviz_dash.ui.catalogue import catalogue
    from graphviz_dash.ui.results import outcome
    from graphviz_dash.ui.store import COLLECTION

    with COLLECTION.put_off():
        for entry in catalogue().entries.values():
            with suppress(InputError):  # the page says so
                outcome(entry.key)
