"""Where the browser of the browser tests is; tests/chromium.sh installs one where none is."""

from __future__ import annotations

import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def system_chromium() -> str | None:
    """The path of the system's Chromium or Chrome; None: there is none, so Playwright's own."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)
