"""Places in the documentation: a page of docs/ and the heading in it, as "reference/rules.md#x"."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

SITE_FOLDER: Final = Path(__file__).parent / "site"
"""Built by ``make site``; part of the wheel, absent from a plain checkout."""

SOURCES: Final = Path(__file__).parents[1] / "docs"
"""Markdown of a checkout; absent from an installation."""

ADDRESS: Final = "/docs"
"""Path of the documentation on the dashboard's server."""

METRICS: Final = "reference/metrics.md"
RULES: Final = "reference/rules.md"
COMMANDS: Final = "reference/commands.md"
HARDWARE_LIMITS: Final = "explanation/hardware-limits.md"
REPLAY_CHECKS: Final = "how-to/check-replays.md"
MEMORY_COSTS: Final = "how-to/read-memory-costs.md"


def build_anchor(heading: str) -> str:
    """Build the anchor of a heading like GitHub and the site."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")


def build_place(page: str, heading: str = "") -> str:
    """Build the location of ``heading`` on ``page``, or of the page itself."""
    return f"{page}#{build_anchor(heading)}" if heading else page


def get_site_path(location: str) -> str:
    """Convert a location to a path in the built site."""
    page, mark, anchor = location.partition("#")
    return f"{page.removesuffix('.md')}.html{mark}{anchor}"


def build_url(location: str) -> str:
    """Build the URL of a location on the dashboard's server."""
    return f"{ADDRESS}/{get_site_path(location)}"
