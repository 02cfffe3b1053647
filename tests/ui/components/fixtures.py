from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page

from tests.serving import served
from tests.ui.tabs import tab

_SITE = Path(__file__).parents[1] / "component_site"


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    """The address of a site that shows the component in its parameter ``show``."""
    with served(_SITE / "app.py") as server:
        yield server.address


@pytest.fixture(scope="session")
def tab_of_site(visitor: BrowserContext, site: str) -> Iterator[Page]:
    """A tab of it whose document stays: tests have it :func:`tests.ui.standing.show` something."""
    with tab(visitor, 1360, 800) as page:
        page.goto(site)
        yield page
