"""Failures on one line: an exception with its class, a refusal in its own words."""

from __future__ import annotations

from graphviz_dash.analysis.failures import cause_text, failure_text, refused
from graphviz_dash.model.run import REFUSED, Failure, Pass


def failed(error: str, message: str, during: Pass = Pass.CLEAN) -> Failure:
    return Failure(during, error, message, "model.py:3", "")


def test_an_exception_is_named_with_the_first_line_of_its_message() -> None:
    failure = failed("RuntimeError", "out of memory\nmore")
    assert not refused(failure)
    assert failure_text("graph", failure) == (
        "graph failed in its clean pass at model.py:3: RuntimeError: out of memory"
    )
    assert cause_text(failed("RuntimeError", "")) == "RuntimeError"


def test_a_refusal_says_its_message_alone() -> None:
    failure = failed(REFUSED, "the step calls no module", Pass.RECORDED)
    assert refused(failure)
    assert failure_text("graph", failure) == (
        "graph failed while it was recorded at model.py:3: the step calls no module"
    )
