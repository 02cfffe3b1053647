"""The concurrency of a graph as JSON, and what of it belongs to a single node."""

from __future__ import annotations
