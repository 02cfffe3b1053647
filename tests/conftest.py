"""Settings that hold for every test."""

import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings
from playwright.sync_api import Browser, Playwright, sync_playwright

from tests.chromium import system_chromium
from tests.order import LongestFirst, in_order

# A slow machine is no failure: what is slow is measured in benchmarks/, not here.
# The same examples each time: a change is judged by what it changed, not by luck.
settings.register_profile("patient", deadline=None, derandomize=True)
settings.load_profile("patient")

# Tests read traces anew, and leave nothing in the cache of whoever runs them.
os.environ["GRAPHVIZ_DASH_CACHE"] = "off"

# Tests start some hundred processes: each would compile our modules anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Traces of tests are small, and several processes run tests: threads of the engine would only wait
# for each other.
os.environ["POLARS_MAX_THREADS"] = "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    in_order(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LongestFirst:
    return LongestFirst(config, log)


@pytest.fixture(scope="session")
def driver() -> Iterator[Playwright]:
    """Playwright, once in a process: a second one beside it refuses to start."""
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="session")
def browser(driver: Playwright) -> Iterator[Browser]:
    """A real Chromium, the system's, else Playwright's own, with the pop-up blocker that readers
    have: Playwright turns it off."""
    opened = driver.chromium.launch(
        executable_path=system_chromium(),
        args=["--no-sandbox", "--disable-gpu", "--process-per-site"],
        ignore_default_args=["--disable-popup-blocking"],
    )
    yield opened
    opened.close()
