"""Runs whose graphs differ in the order of creation only."""

from __future__ import annotations

from graphviz_dash.features.graph.diff.creation_order import OrderEffect, find_order_effects
from graphviz_dash.ui.state.store import STORE


def get_creation_orders(key: str) -> tuple[OrderEffect, ...]:
    """Return runs whose graphs differ in creation order only."""
    return STORE.derive(key, "creation-orders", find_order_effects)
