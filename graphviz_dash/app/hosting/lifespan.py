"""Start and stop background work with the server."""

from __future__ import annotations

import gc
import inspect
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, Final

from streamlit import net_util

from graphviz_dash.app.hosting.access import get_access
from graphviz_dash.app.hosting.browser_address import patch_sessions
from graphviz_dash.app.hosting.cards_client import FIRST_CARDS
from graphviz_dash.app.hosting.document import OVERVIEW_ELEMENTS, build_preload_links
from graphviz_dash.app.hosting.ending import (
    handle_signals,
    raise_descriptor_limit,
    stop_with_parent,
)
from graphviz_dash.app.hosting.session_locks import patch_session_locks
from graphviz_dash.app.hosting.sockets import disable_nagle
from graphviz_dash.app.hosting.switch import apply_patch, is_plain
from graphviz_dash.server_settings import read_settings
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
    handle_signals(_clean_up)
    if read_settings().supervised:
        stop_with_parent()
    # To admit sockets with an unknown origin, Streamlit asks a server of Amazon for the external
    # address of this machine. The guard decides about origins.
    net_util.get_external_ip = _get_no_address
    # Generate and print a required token before the first request.
    get_access()
    if not is_plain():
        disable_nagle()
        sys.setswitchinterval(_TURN_S)
        apply_patch(patch_session_locks, "share locks between runs of a page")
        apply_patch(patch_sessions, "track the address of each browser")
        FIRST_CARDS.begin(sys.argv[1:])
        threading.Thread(target=_prepare, name="graphviz-dash start", daemon=True).start()
    else:
        gc.enable()
    try:
        yield None
    finally:
        _clean_up()


def _get_no_address() -> None:
    """Return None in place of the external address."""


def _clean_up() -> None:
    FIRST_CARDS.stop()
    SCRATCH.remove()


def _prepare() -> None:
    """Warm up the script of the first page while the browser loads Streamlit's front end."""
    try:
        build_preload_links(OVERVIEW_ELEMENTS)
        for name in _FIRST:
            import_module(name)
    finally:
        # Modules are never garbage: each complete collection would look at them for 0.1 s.
        gc.freeze()
        gc.enable()
    # Streamlit inspects the stack for its first element. The standard library then looks up and
    # caches the file of every module.
    inspect.stack()
