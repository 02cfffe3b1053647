"""List the visitor's experiments and announce changes on disk."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import streamlit as st

from graphviz_dash.ui.page.markup import escape_markdown
from graphviz_dash.ui.state.catalogue import Catalogue, Entry, list_experiments, refresh_searches
from graphviz_dash.ui.state.presence import VISITOR_HEADER

_SHOWN_VERSIONS: Final = "versions-shown"
"""Session key: store key of each experiment shown."""
_LISTED: Final = "experiments-listed"
"""Session key: experiments at the last listing."""
_PAGE_STATE: Final = "page-loaded"
"""Session key: present after the first page."""
_REPORTED_DAMAGE: Final = "damage-told"
"""Session key: traces whose damaged cache was already reported."""
_MAX_NAMES: Final = 3
_POLL_S: Final = 0.05


def get_visitor() -> str:
    """Return the visitor id from the browser's cookie, or a random id for this session."""
    named = st.context.headers.get(VISITOR_HEADER)
    if named is not None:
        return named
    session: str = st.session_state.setdefault("visitor", secrets.token_hex(16))
    return session


def get_listing(*, uses_cache: bool = False) -> Catalogue:
    """Return the experiments under the server's folders and the visitor's uploads.

    With ``uses_cache``, the first page may list a large folder as an earlier server found it, and
    then calls :func:`has_outdated_listing`.
    """
    has_loaded_page = _PAGE_STATE in st.session_state
    return list_experiments(
        get_visitor(), reuses_search=has_loaded_page, uses_cache=uses_cache and not has_loaded_page
    )


def has_outdated_listing(listing: Catalogue, poll: Callable[[], object]) -> bool:
    """Search the folders of a stored listing; True if they contain other experiments.

    ``poll`` is called while waiting; it may raise an exception to stop.
    """
    if not listing.is_from_cache:
        # Interactions reuse this search, even before all cards are read.
        st.session_state[_PAGE_STATE] = True
        return False
    search = refresh_searches()
    while search.is_alive():
        poll()
        search.join(_POLL_S)
    st.session_state[_PAGE_STATE] = True
    return get_listing().entries.keys() != listing.entries.keys()


def refresh_listing() -> None:
    """Search large folders again, in the background."""
    st.session_state[_PAGE_STATE] = True
    refresh_searches()


def toast_changes(entries: Sequence[Entry]) -> None:
    """Announce which ``entries`` changed since this session last showed them."""
    versions: dict[str, str] = st.session_state.setdefault(_SHOWN_VERSIONS, {})
    changed = [entry.name for entry in entries if versions.get(entry.name, entry.key) != entry.key]
    versions |= {entry.name: entry.key for entry in entries}
    _toast(changed, "changed on disk; showing the current version")


def toast_arrivals(listed: Catalogue) -> None:
    """Announce experiments added or deleted since this session last listed them."""
    names = {entry.name for entry in listed.entries.values() if not entry.is_upload}
    before: set[str] = st.session_state.get(_LISTED, names)
    st.session_state[_LISTED] = names
    _toast(sorted(names - before), "added")
    _toast(sorted(before - names), "deleted")


def toast_damaged_caches(entry: Entry) -> None:
    """Announce traces with a damaged cache, once per session."""
    # Imports the table reader, which the first page does not need.
    from graphviz_dash.ingest.cache import find_damaged

    reported: set[Path] = st.session_state.setdefault(_REPORTED_DAMAGE, set())
    damaged = [path for path in find_damaged(entry.path) if path not in reported]
    reported.update(damaged)
    files = [str(path.relative_to(entry.path.resolve())) for path in damaged]
    _toast(files, "had a damaged cache and was read again from the trace")


def _toast(names: Sequence[str], message: str) -> None:
    if not names:
        return
    more = len(names) - _MAX_NAMES
    name_list = ", ".join(escape_markdown(name) for name in names[:_MAX_NAMES])
    st.toast(f"{name_list}{f' and {more} more' if more > 0 else ''} {message}.", duration="long")
