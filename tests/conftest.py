from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import settings

from graphviz_dash.ingest.processes import PROCESSES_VARIABLE
from tests.chromium import CHROMIUM_OPTIONS, system_chromium
from tests.compiled import begin_with_own_part
from tests.order import LongestFirst, in_order

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright

_FIXTURES: Final = (
    "tests.cli.fixtures",
    "tests.ui.fixtures",
    "tests.ui.components.fixtures",
    "tests.ui.views.fixtures",
)
"""Fixtures that tests of several folders share."""

# A slow machine is no failure: what is slow is measured in benchmarks/, not here.
# The same examples each time: a change is judged by what it changed, not by luck.
settings.register_profile("patient", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("patient")

# Tests read traces anew, and leave nothing in the cache of whoever runs them.
os.environ["GRAPHVIZ_DASH_CACHE"] = "off"

# Tests start some hundred processes: each would compile our modules anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Traces of tests are small, and several processes run tests: threads of the engine would only wait
# for each other.
os.environ["POLARS_MAX_THREADS"] = "1"

# So would processes that read parts of a trace; what they do is tested where they are asked for.
os.environ[PROCESSES_VARIABLE] = "1"


def pytest_configure(config: pytest.Config) -> None:
    """Import shared fixtures, except in the process that distributes tests to others: those start
    when it has imported everything.
    """
    distributes = config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput")
    if not distributes or config.getoption("collectonly"):
        for name in _FIXTURES:
            config.pluginmanager.import_plugin(name)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    in_order(items)
    if config.pluginmanager.hasplugin("rerunfailures"):
        for item in items:
            if item.get_closest_marker("ui") is not None:
                item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Freeze imported and collected objects: the garbage collector scans them repeatedly otherwise,
    and tests create few cycles.
    """
    gc.disable()
    try:
        if session.config.args == session.config.getini("testpaths"):
            begin_with_own_part(os.environ)
        return (yield)
    finally:
        _let_records_reach_root()
        gc.freeze()
        gc.set_threshold(10_000)
        gc.enable()


def _let_records_reach_root() -> None:
    """Let the records of all loggers reach the root logger: for each phase of a test, pytest adds
    two handlers to each logger that does not propagate, and Streamlit has 65 of them.
    """
    for logger in logging.root.manager.loggerDict.values():
        if isinstance(logger, logging.Logger):
            logger.propagate = True


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LongestFirst:
    return LongestFirst(config, log)


@pytest.fixture(scope="session", autouse=True)
def _samples_are_read_and_compared_once() -> Iterator[None]:
    """Cache samples in each process: nobody changes them.

    Tests that read others load them again.
    """
    from tests.samples_once import samples_once

    with samples_once():
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_disk_is_waited_for() -> Iterator[None]:
    """Skip fsync: files of tests need not survive a crash, and each bundle would wait a dozen
    times.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session")
def driver() -> Iterator[Playwright]:
    """Start Playwright once per process, which refuses a second instance."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="session")
def browser(driver: Playwright) -> Iterator[Browser]:
    """The system's Chromium, else Playwright's, with a pop-up blocker, which Playwright turns
    off."""
    opened = driver.chromium.launch(
        executable_path=system_chromium(),
        args=list(CHROMIUM_OPTIONS),
        ignore_default_args=["--disable-popup-blocking"],
    )
    yield opened
    opened.close()
