from __future__ import annotations

from graphviz_dash.analysis.failures import format_cause, format_failure, is_refusal
from graphviz_dash.model.run import COLLECTOR_ERROR, PROCESS_DIED, Failure, Pass


def failed(error: str, message: str, during: Pass = Pass.CLEAN) -> Failure:
    return Failure(during, error, message, "model.py:3", "")


def test_an_exception_is_named_with_the_first_line_of_its_message() -> None:
    failure = failed("RuntimeError", "out of memory\nmore")
    assert not is_refusal(failure)
    assert format_failure("graph", failure) == (
        "graph failed in its clean pass at model.py:3: RuntimeError: out of memory"
    )
    assert format_cause(failed("RuntimeError", "")) == "RuntimeError"


def test_a_refusal_says_its_message_alone() -> None:
    failure = failed(COLLECTOR_ERROR, "the step calls no module", Pass.RECORDED)
    assert is_refusal(failure)
    assert format_failure("graph", failure) == (
        "graph failed while it was recorded at model.py:3: the step calls no module"
    )


def test_a_killed_program_did_not_fail() -> None:
    killed = Failure(Pass.RECORDED, PROCESS_DIED, "the last 100 ms are missing", None, "")
    assert format_failure("server", killed) == (
        "server was killed while it was recorded: the last 100 ms are missing"
    )
    crashed = Failure(Pass.CLEAN, PROCESS_DIED, "exit code 1", None, "")
    assert format_failure("graph", crashed) == (
        "graph failed in its clean pass: ProcessDied: exit code 1"
    )
