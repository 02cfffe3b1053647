"""Small steps whose operators must keep an order that is easily lost; each runs two branches, so
that a planner has something to set apart."""

from tests.gpu.hazards import lifetimes, shared_state, training, views, writes
from tests.gpu.hazards.steps import HAZARDS, hazard_results

__all__ = ["HAZARDS", "hazard_results", "lifetimes", "shared_state", "training", "views", "writes"]
