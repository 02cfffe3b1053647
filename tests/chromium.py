"""Where the browser of the browser tests is; tests/chromium.sh installs one where none is."""

from __future__ import annotations

import shutil

NAMES = (
    *("chromium-headless-shell", "chromium", "chromium-browser"),
    *("google-chrome", "google-chrome-stable"),
)
"""The first that is there is taken. The headless shell is Chromium without its windows: the same
engine, for two thirds of the CPU time of a page."""


def system_chromium() -> str | None:
    """The path of the system's Chromium or Chrome; None: there is none, so Playwright's own."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)
