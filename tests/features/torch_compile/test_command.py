from __future__ import annotations

import json
import re
from pathlib import Path

from graphviz_dash.model.compilation import Compilation, GraphBreak
from tests.cli.fixtures import Invoke
from tests.features.torch_compile.page.test_page import SAMPLE, write_run
from tests.features.torch_compile.test_compiled import BREAK, FRAMES

HARM = GraphBreak("0/0", "odd\x1b[31m", None, (), None, BREAK.lines)


def test_causes_are_printed_with_line_and_advice(invoke: Invoke, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "compile"
    write_run(run, Compilation("2.11", (), frames=FRAMES, breaks=(BREAK,)))
    printed = invoke("compile", str(run), "--all").out
    assert "1. Printing, logging or warning in the step  model.py:8" in printed
    assert "graph replay" in printed
    document = json.loads(invoke("compile", str(run), "--json").out)
    (cause,) = document["causes"]
    assert (cause["rule"], cause["lines"][0]["line"]) == ("python-side-effect", 8)
    assert [box["kind"] for box in document["program"]] == [
        "function",
        "compilation",
        "resume function",
    ]


def test_control_characters_of_torch_messages_are_not_printed(
    invoke: Invoke, tmp_path: Path
) -> None:
    run = tmp_path / "runs" / "compile"
    write_run(run, Compilation("2.11", (), frames=FRAMES, breaks=(HARM,)))
    assert "\x1b" not in invoke("compile", str(run), "--all").out


def test_a_trace_alone_shows_times_and_says_that_it_knows_no_cause(invoke: Invoke) -> None:
    printed = invoke("compile", str(SAMPLE / "compile"), "--all").out
    assert "were not recorded: the trace shows only times" in printed
    assert "dispatch of compiled graphs" in printed


def test_a_run_that_compiled_nothing_is_refused(invoke: Invoke) -> None:
    refused = invoke("compile", str(SAMPLE / "eager"), "--all")
    assert refused.code == 2
    assert "nothing was compiled during recording" in refused.err


def test_the_doctor_tells_the_same_causes_and_the_rules_of_torch_compile(
    invoke: Invoke, tmp_path: Path
) -> None:
    run = tmp_path / "runs" / "compile"
    write_run(run, Compilation("2.11", (), frames=FRAMES, breaks=(BREAK,)))
    told = invoke("doctor", "--bundle", str(run), "--all")
    assert told.code == 0
    assert "1. Printing, logging or warning in the step  model.py:8" in told.out
    assert re.search(r"^python-side-effect +broken +1 cause$", told.out, re.M)
    documents = [
        json.loads(invoke(*command, str(run), "--json").out)
        for command in (("doctor", "--bundle"), ("compile",))
    ]
    (compiled,) = documents[0]["compiled"]
    assert documents[0]["processes"] == []
    assert compiled["causes"] == documents[1]["causes"]
    assert compiled["rules"] == documents[1]["rules"]
