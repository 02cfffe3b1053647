"""Start and stop background work with the server."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, Final

from graphviz_dash.app.hosting.access import access
from graphviz_dash.app.hosting.browser_address import keep_addresses
from graphviz_dash.app.hosting.cards_client import FIRST_CARDS
from graphviz_dash.app.hosting.document import OVERVIEW, first_requests
from graphviz_dash.app.hosting.ending import (
    end_at_signals,
    end_with_starter,
    raise_descriptor_limit,
)
from graphviz_dash.app.hosting.session_locks import share_locks
from graphviz_dash.app.hosting.sockets import no_delay
from graphviz_dash.app.hosting.switch import is_plain
from graphviz_dash.server_settings import settings_of
from graphviz_dash.ui.state.scratch import SCRATCH, remove_scratch_of_killed

_TURN_S: Final = 0.001
"""Thread switch interval; the default of 5 ms delays each response several times."""

_FIRST: Final = ("graphviz_dash.ui.page.frame", "graphviz_dash.app.overview.page")
"""Modules imported by the script of the first page."""


@asynccontextmanager
async def lifespan(_: object) -> AsyncIterator[dict[str, Any] | None]:
    """Run background work during the life of the server, whose socket is bound by now."""
    raise_descriptor_limit()
    remove_scratch_of_killed()
    end_at_signals(_clean)
    if settings_of().supervised:
        end_with_starter()
    # Generate and print a required token before the first request.
    access()
    if not is_plain():
        no_delay()
        sys.setswitchinterval(_TURN_S)
        share_locks()
        keep_addresses()
        FIRST_CARDS.begin(sys.argv[1:])
        threading.Thread(target=_prepare, name="graphviz-dash start", daemon=True).start()
    try:
        yield None
    finally:
        _clean()


def _clean() -> None:
    FIRST_CARDS.end()
    SCRATCH.remove()


def _prepare() -> None:
    """Warm up the script of the first page while the browser loads Streamlit's front end."""
    first_requests(OVERVIEW)
    for name in _FIRST:
        import_module(name)
    # Streamlit inspects the stack for its first element. The standard library then looks up and
    # caches the file of every module.
    inspect.stack()
