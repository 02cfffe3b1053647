from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path

import msgspec
import pytest

from graphviz_dash.app.cli.main import main
from graphviz_dash.bundle import parts
from graphviz_dash.bundle.write import BundleWriter
from graphviz_dash.model.doctor import CodeLocation, DoctorReport, OutputCheck
from graphviz_dash.model.rules import RULES
from graphviz_dash.model.run import ExecutionMode, Failure, Pass, WorkloadInfo
from graphviz_dash.narrative.doctor import format_report_verdict
from graphviz_dash.ui.state import catalogue
from tests.analysis.trace.integrity_traces import make_events, write_events
from tests.doctors import MOVED, OUTPUTS, READ, WAIT, failing_at_once, report
from tests.experiments import make_run, manifest
from tests.ui.views.apptests import FAILURE, HARM, NAVIGATION, markup, page_links, shown


@pytest.fixture(autouse=True)
def roots(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    monkeypatch.setattr(sys, "argv", ["app.py", str(tmp_path)])
    catalogue.get_roots.cache_clear()
    yield tmp_path
    catalogue.get_roots.cache_clear()


def examined(folder: Path, given: DoctorReport, name: str = "doctor") -> None:
    info = WorkloadInfo("toy", "tests:toy", 0, 3, 3, 0)
    failure = FAILURE if given.captured is False else None
    with BundleWriter(folder / name) as writer:
        writer.add(parts.DOCTOR, given)
        writer.commit(manifest(ExecutionMode.GRAPH, info, failure=failure))


def test_the_verdict_and_every_finding_with_its_rule(roots: Path) -> None:
    given = report(MOVED, WAIT, READ, outputs=OUTPUTS)
    examined(roots / "toy", given)
    told = markup(shown("doctor", experiment="toy"))
    assert escape(format_report_verdict(given)) in told
    assert ">Capture fails<" in told
    assert told.count("<article") == 3
    assert told.index("first illegal call") < told.index("An input that moves")
    hit = '<span class="hit"><i>18</i>        losses.append(loss.item())</span>'
    assert hit in told
    assert "CUDA error: operation not permitted when stream is capturing" in told
    assert "<dt>Bytes copied</dt><dd>4.00 KiB</dd>" in told
    assert "<dt>Thread</dt><dd>prefetch</dd>" in told
    for finding in (READ, WAIT, MOVED):
        assert escape(RULES[finding.rule].right.splitlines()[0]) in told
    assert "60 of 64 elements differ, by up to 3.25" in told
    assert "equal in every element" in told


def test_tensors_without_a_row_are_counted(roots: Path) -> None:
    differing = tuple(
        OutputCheck(f"layer.{n}", "state", "float32", (8,), 8, 3, 0.5, None) for n in range(13)
    )
    examined(roots / "toy", report(MOVED, outputs=differing))
    assert "Not shown: 1 more tensor." in markup(shown("doctor", experiment="toy"))


def test_equal_tensors_share_a_row(roots: Path) -> None:
    equal = [
        OutputCheck(f"layer.{n}", "state", "float32", (8,), 8, 0, 0.0, None) for n in range(12)
    ]
    given = msgspec.structs.replace(report(MOVED, captured=True), outputs=(*equal, *OUTPUTS))
    examined(roots / "toy", given)
    told = markup(shown("doctor", experiment="toy"))
    table = told[told.index("doctor-table") :]
    assert table.count("<tr>") == 3
    assert "<summary>13 tensors</summary>" in table
    assert table.count("equal in every element") == 1
    assert "<li>layer.11: float32 [8]</li>" in table
    assert table.index("60 of 64") < table.index("equal in every element")


def test_every_rule_is_listed_with_what_came_of_it(roots: Path) -> None:
    examined(roots / "toy", report(READ))
    told = markup(shown("doctor", experiment="toy"))
    rules = told[told.index("All rules") :]
    assert rules.count("<details>") == len(RULES)
    assert f"1 broken, {len(RULES) - 2} passed, 1 not checked" in rules
    assert "the doctor chose the stream" in rules


def test_rules_that_one_reason_left_unchecked_are_folded(roots: Path) -> None:
    examined(roots / "toy", failing_at_once())
    shown_text = markup(shown("doctor", experiment="toy"))
    rules = shown_text[shown_text.index("All rules") :]
    assert f"<b>{len(RULES) - 1} rules</b>" in rules
    assert rules.index("A GPU value is read") < rules.index(f"{len(RULES) - 1} rules")
    assert rules.count("<details>") == len(RULES) + 1


def test_a_sound_step_has_no_card(roots: Path) -> None:
    examined(roots / "toy", report(captured=True, outputs=OUTPUTS[1:]))
    told = markup(shown("doctor", experiment="toy"))
    assert ">Healthy<" in told
    assert "<article" not in told
    assert "the only tensor after a replay equals that of an eager step" in told


def test_the_failed_run_is_shown_first_of_several(roots: Path) -> None:
    examined(roots / "toy", report(captured=True), "a-sound-one")
    examined(roots / "toy", report(READ), "graph")
    page = shown("doctor", experiment="toy")
    assert ">Capture fails<" in markup(page)


def test_without_a_report_it_says_how_to_get_one(roots: Path) -> None:
    make_run(roots / "toy", "graph")
    told = markup(shown("doctor", experiment="toy"))
    assert "No doctor report in this experiment" in told
    assert "All captures succeeded" in told
    assert "graphviz-dash doctor --workload toy -o toy" in told


def test_blockers_of_an_incomplete_trace_name_what_is_missing(roots: Path) -> None:
    events = [e for e in make_events() if e["args"].get("correlation") not in (1003, 1013)]
    events += [e for e in make_events() if e["cat"] == "kernel" and e["name"] == "kernel_3"][:2]
    trace = write_events(events, roots / "eager.json")
    assert main(("import", str(trace), "-o", str(roots / "toy"), "--mode", "eager")) == 0
    page = markup(shown("doctor", experiment="toy"))
    assert "Partial: 2 of 60 kernels have no launch in the trace" in page
    assert "other calls may be missing too" in page


def test_a_mode_that_was_refused_needs_no_doctor(roots: Path) -> None:
    make_run(roots / "toy", "eager")
    for name in ("callables", "partial"):
        failure = Failure(Pass.CLEAN, "GraphvizDashError", "The step calls no module.", None, name)
        make_run(roots / "toy", name, failure=failure)
    told = markup(shown("doctor", experiment="toy"))
    each = "callables, partial each failed in its clean pass"
    assert f"{each}: The step calls no module. The doctor" in told
    assert not shown("compare", experiment="toy").code  # no lines of ours
    told = markup(shown("overview"))
    assert told.count("The step calls no module.") == 1
    assert "<b>callables, partial each failed</b> in its clean pass<br>The step calls" in told


def test_a_report_can_do_no_harm(roots: Path) -> None:
    place = CodeLocation(HARM, 2, HARM, 1, (HARM, "</span></pre><script>alert(1)</script>", HARM))
    evil = msgspec.structs.replace(
        READ, location=place, op=HARM, stream=HARM, thread=HARM, message=HARM
    )
    output = msgspec.structs.replace(OUTPUTS[0], name=HARM, dtype=HARM)
    examined(roots / "toy", report(evil, outputs=(output,)))
    told = markup(shown("doctor", experiment="toy"))
    for forbidden in ("<img", "<script", "\x1b"):
        assert forbidden not in told
    assert "&lt;script&gt;" in told


def test_an_examination_beside_measured_runs_is_no_run_to_compare(roots: Path) -> None:
    make_run(roots / "toy", "eager")
    make_run(roots / "toy", "graph")
    examined(roots / "toy", report(MOVED, captured=True))
    told = markup(shown("compare", experiment="toy"))
    assert "graph" in told
    assert "The capture succeeds (43 nodes), but replays do not reproduce the step" in told
    assert re.sub('<a class="to-page.*?</a>', "", told).count("doctor") == 1
    page = shown("overview")
    assert "as timed, but replays of graph compute a different result" in markup(page)
    assert "graph is faster than eager" not in markup(page)
    assert '<span class="big doubted">' in markup(page)
    assert "Doctor" in [link.label for link in page_links(page)][NAVIGATION:]


@pytest.mark.parametrize("page", ["overview", "compare", "graph", "timeline", "memory", "export"])
@pytest.mark.parametrize("given", [report(READ), report(MOVED, captured=True)])
def test_an_examination_alone_opens_on_every_page(
    roots: Path, page: str, given: DoctorReport
) -> None:
    examined(roots / "toy", given)
    shown(page) if page == "overview" else shown(page, experiment="toy")
