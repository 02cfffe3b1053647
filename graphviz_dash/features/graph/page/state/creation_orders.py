"""Runs whose graphs differ in the order of creation only."""

from __future__ import annotations

from graphviz_dash.features.graph.diff.creation_order import OrderEffect, order_effects
from graphviz_dash.ui.state.store import STORE


def creation_orders(key: str) -> tuple[OrderEffect, ...]:
    """The runs whose graphs differ in the order of creation only."""
    return STORE.derived(key, "creation-orders", order_effects)
