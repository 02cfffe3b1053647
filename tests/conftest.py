"""Settings that hold for every test."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings
from playwright.sync_api import Playwright, sync_playwright

# A slow machine is no failure: what is slow is measured in benchmarks/, not here.
# The same examples each time: a change is judged by what it changed, not by luck.
settings.register_profile("patient", deadline=None, derandomize=True)
settings.load_profile("patient")

# Tests read traces anew, and leave nothing in the cache of whoever runs them.
os.environ["GRAPHVIZ_DASH_CACHE"] = "off"


@pytest.fixture(scope="session")
def driver() -> Iterator[Playwright]:
    """Playwright, once in a process: a second one beside it refuses to start."""
    with sync_playwright() as playwright:
        yield playwright
