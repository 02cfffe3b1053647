"""An exception as the failure that a bundle records."""

from __future__ import annotations

import pytest

from collectors.failures import describe
from graphviz_dash.errors import GraphvizDashError, MissingRequirementError
from graphviz_dash.model.run import REFUSED, Pass


@pytest.mark.parametrize(
    ("error", "recorded"),
    [
        (RuntimeError("out of order"), "RuntimeError"),
        (GraphvizDashError("the step calls no module"), REFUSED),
        (MissingRequirementError("torch is not installed"), REFUSED),
    ],
)
def test_what_the_collector_refused_is_marked(error: Exception, recorded: str) -> None:
    failure = describe(error, Pass.CLEAN)
    assert (failure.error, failure.message) == (recorded, str(error))
