"""Whose page it is, and the experiments that he sees."""

from __future__ import annotations

import secrets

import streamlit as st

from graphviz_dash.ui.hosting.guard import VISITOR_HEADER
from graphviz_dash.ui.state.catalogue import Catalogue, catalogue


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
