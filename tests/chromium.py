"""Path of the browser for tests; tests/chromium.sh installs one if none exists."""

from __future__ import annotations

import shutil
from typing import Final

NAMES = (
    *("chromium-headless-shell", "chromium", "chromium-browser"),
    *("google-chrome", "google-chrome-stable"),
)
"""The first that exists is used. The headless shell has the same engine and needs two thirds of the
CPU time."""

_OFF: Final = (
    # What Playwright turns off, of which a page of this machine could notice: the last list counts.
    *("HttpsUpgrades", "HttpsFirstBalancedModeAutoEnable", "PaintHolding", "MediaRouter"),
    *("OptimizationHints", "NetworkTimeServiceQuerying", "AimEnabled", "PreconnectToSearch"),
    *("AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose"),
    # Scripts that are parsed while they come are parsed on every page; those that are looked up
    # when they are there were compiled for the first page.
    *("ScriptStreaming", "BackgroundResourceFetch"),
)

CHROMIUM_OPTIONS: Final = (
    *("--no-sandbox", "--disable-gpu"),
    # All tabs in one process, which compiles Streamlit's scripts once; without the limit each tab
    # begins in one of its own.
    *("--process-per-site", "--renderer-process-limit=1"),
    # No other machine is reached, whatever a page asks for.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
    f"--disable-features={','.join(_OFF)}",
    # A page lives for a second or two: code that is compiled to run fast does not pay, code that is
    # kept for the next page does.
    "--js-flags=--no-opt --no-maglev --no-flush-bytecode",
)
"""Options that save a third of the CPU time."""


PATIENCE_MS: Final = 90_000
"""Longest wait for a page. Busy machines are slow, and speed is measured in benchmarks/."""


def system_chromium() -> str | None:
    """Path of the system's Chromium or Chrome; None if Playwright's is needed."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)
