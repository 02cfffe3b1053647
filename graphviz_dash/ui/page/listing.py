"""Whose page it is, the experiments that he sees, and what changed of them on disk since this
session last showed them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import streamlit as st

from graphviz_dash.ui.page.markup import plain
from graphviz_dash.ui.state.catalogue import Catalogue, Entry, catalogue
from graphviz_dash.ui.state.presence import VISITOR_HEADER

_VERSIONS: Final = "versions-shown"
"""Of each experiment that this session showed: its key, which is that of a version."""
_LISTED: Final = "experiments-listed"
"""The experiments that were there when this session last listed them."""
_DAMAGE_TOLD: Final = "damage-told"
"""The traces of which this session said that their tables in the cache were damaged."""
_MOST_NAMED: Final = 3


def visitor() -> str:
    """The visitor, known by a cookie that only his browser has; where there is none, by this
    page's session."""
    named = st.context.headers.get(VISITOR_HEADER)
    if named is not None:
        return named
    session: str = st.session_state.setdefault("visitor", secrets.token_hex(16))
    return session


def listing() -> Catalogue:
    """The experiments that the visitor sees: under the server's folders, and his uploads."""
    return catalogue(visitor())


def tell_changes(entries: Sequence[Entry]) -> None:
    """Says which of ``entries`` were other ones when this session last showed them."""
    versions: dict[str, str] = st.session_state.setdefault(_VERSIONS, {})
    changed = [entry.name for entry in entries if versions.get(entry.name, entry.key) != entry.key]
    versions |= {entry.name: entry.key for entry in entries}
    _tell(changed, "changed on disk; this page shows what is there now")


def tell_arrivals(listed: Catalogue) -> None:
    """Says what came and went since this session last listed the experiments under the server's
    folders."""
    names = {entry.name for entry in listed.entries.values() if not entry.is_upload}
    before: set[str] = st.session_state.get(_LISTED, names)
    st.session_state[_LISTED] = names
    _tell(sorted(names - before), "arrived on disk")
    _tell(sorted(before - names), "went from disk")


def tell_damage(entry: Entry) -> None:
    """Says once in a session which traces of the experiment had damaged tables in the cache."""
    # The reader of tables, which the first page of all does not wait for.
    from graphviz_dash.ingest.cache import damaged_below

    told: set[Path] = st.session_state.setdefault(_DAMAGE_TOLD, set())
    damaged = [path for path in damaged_below(entry.path) if path not in told]
    told.update(damaged)
    files = [str(path.relative_to(entry.path.resolve())) for path in damaged]
    _tell(files, "had damaged tables in the cache; they were read anew from the trace")


def _tell(names: Sequence[str], what: str) -> None:
    if not names:
        return
    more = len(names) - _MOST_NAMED
    shown = ", ".join(plain(name) for name in names[:_MOST_NAMED])
    st.toast(f"{shown}{f' and {more} more' if more > 0 else ''} {what}.", duration="long")
