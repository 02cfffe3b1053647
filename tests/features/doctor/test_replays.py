from __future__ import annotations

import gzip
import json
import re
import shutil
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.metrics.kernel_table import build_kernel_table
from graphviz_dash.analysis.replay_check import diagnose_replays
from graphviz_dash.app.report.report import render_report
from graphviz_dash.app.report.static_charts import draw_charts
from graphviz_dash.bundle import parts
from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.bundle.write import BundleWriter
from graphviz_dash.features.doctor.command import doctor
from graphviz_dash.features.doctor.replay_document import build_replay_check_document
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.doctor import DoctorReport, RuleId
from graphviz_dash.model.replay_check import (
    CheckedTensor,
    CheckGap,
    ElementDifference,
    FactKind,
    ReplayCheck,
    WrongElements,
)
from graphviz_dash.model.rules import RULES
from graphviz_dash.model.run import ExecutionMode, WorkloadInfo
from graphviz_dash.narrative.doctor import format_report_verdict
from graphviz_dash.narrative.replay_check import format_replay_verdict, format_stop
from graphviz_dash.ui.state import catalogue
from tests.analysis.test_replay_check import (
    FATE,
    make_check,
    make_difference,
    make_fact,
    make_replay_check,
    make_stop,
)
from tests.builders import captured_graph, chain
from tests.doctors import MOVED, report
from tests.experiments import manifest
from tests.samples_once import SAMPLES
from tests.ui.views.apptests import HARM, markup, shown

CASES = Path(__file__).parents[2] / "cases"

ELEMENTS = WrongElements(
    1,
    CheckedTensor("output", 0, "float32", (4, 8)),
    32,
    32,
    (ElementDifference((0, 1), 1.5, 1.25),),
)
HASHED = CheckGap("host nodes", f"a host function {HARM} may write any memory")


def make_wrong_check() -> ReplayCheck:
    values = make_check(make_difference(), facts=(make_fact(FactKind.SCALAR),))
    return ReplayCheck("workload", (replace(values, elements=ELEMENTS),), (), (FATE,), 1, (HASHED,))


def write(
    folder: Path,
    check: ReplayCheck,
    mode: ExecutionMode = ExecutionMode.GRAPH,
    captures: DoctorReport | None = None,
) -> Path:
    info = WorkloadInfo("toy", "tests:toy", 0, 3, 3, 0)
    with BundleWriter(folder) as writer:
        if captures is not None:
            writer.add(parts.DOCTOR, captures)
        writer.add(parts.REPLAY_CHECK, check)
        writer.commit(manifest(mode, info))
    return folder


@pytest.fixture(autouse=True)
def roots(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    monkeypatch.setattr(sys, "argv", ["app.py", str(tmp_path)])
    catalogue.get_roots.cache_clear()
    yield tmp_path
    catalogue.get_roots.cache_clear()


def test_a_bundle_keeps_the_raw_facts(tmp_path: Path) -> None:
    check = make_wrong_check()
    assert read_bundle(write(tmp_path / "toy" / "doctor", check)).replay_check == check


@pytest.mark.parametrize("option", [["--replays"], []])
def test_the_terminal_names_operator_line_and_fix(tmp_path: Path, option: list[str]) -> None:
    bundle = write(tmp_path / "toy" / "doctor", make_wrong_check())
    result = CliRunner().invoke(doctor, ["--bundle", str(bundle), *option])
    assert result.exit_code == 3
    # Long lines are wrapped.
    assert " ".join(result.output.split()).startswith(
        "Replay 1 is wrong from aten::mul at model.py:7 (net.3) on: a number keeps its value of "
        "the capture (1.5, eager 1.25). 1 further fault found."
    )
    assert ">     7  y = x * factor" in result.output
    assert "[0, 1]: eager 1.5, replay 1.25" in result.output
    assert "Keep the number in a GPU tensor" in result.output
    assert "freed by model.py:7" in result.output
    assert "Not checked" in result.output


def test_a_named_cause_replaces_the_finding_without_one(roots: Path) -> None:
    differs = replace(MOVED, rule=RuleId.REPLAY_DIFFERS, location=None, op=None)
    title, advice = RULES[RuleId.REPLAY_DIFFERS].title, "memory freed between replays"
    wrong, unknown = make_wrong_check(), make_check(make_difference())
    for check, is_named in ((wrong, True), (replace(wrong, values=(unknown,)), False)):
        shutil.rmtree(roots / "toy", ignore_errors=True)
        bundle = write(roots / "toy" / "graph", check, captures=report(differs, captured=True))
        result = CliRunner().invoke(doctor, ["--bundle", str(bundle)])
        assert result.exit_code == 3
        words = " ".join(result.output.split())
        assert "but replays do not reproduce the step" in words
        assert (title in words, advice in words) == (not is_named, not is_named)
        document = CliRunner().invoke(doctor, ["--bundle", str(bundle), "--json"]).output
        assert "replay-differs" in document
        catalogue.get_roots.cache_clear()
    assert "Silently wrong on replay" in markup(shown("doctor", experiment="toy"))
    shutil.rmtree(roots / "toy")
    write(roots / "toy2" / "graph", wrong, captures=report(differs, captured=True))
    catalogue.get_roots.cache_clear()
    page = markup(shown("doctor", experiment="toy2"))
    assert "but replays do not reproduce the step." in page
    assert "Silently wrong on replay" not in page


def test_the_exit_code_is_for_ci(tmp_path: Path) -> None:
    sound = write(
        tmp_path / "toy" / "sound", ReplayCheck("workload", (make_check(),), (), (), 1, ())
    )
    assert CliRunner().invoke(doctor, ["--bundle", str(sound)]).exit_code == 0
    crashed = write(tmp_path / "toy" / "crashed", make_replay_check(make_stop()))
    result = CliRunner().invoke(doctor, ["--bundle", str(crashed)])
    assert result.exit_code == 3
    assert "crashed in node 5, gather (aten::index at model.py:7)" in result.output


def test_json_has_its_own_document(tmp_path: Path) -> None:
    bundle = write(tmp_path / "toy" / "doctor", make_wrong_check())
    result = CliRunner().invoke(doctor, ["--bundle", str(bundle), "--replays", "--json"])
    document = json.loads(result.output)
    assert (document["schema"], document["version"]) == ("graphviz-dash/replay-check", 1)
    (check,) = document["checks"]
    (wrong,) = check["wrong"]
    assert (wrong["cause"], wrong["location"]) == ("scalar-frozen", "model.py:7")
    assert (wrong["capture_value"], wrong["eager"]) == ("1.5", ["1.25", "1.0"])
    assert wrong["elements"] == [{"index": [0, 1], "eager": 1.5, "replay": 1.25}]
    assert check["memory"][0]["before_replay"] == 21


def test_a_marked_program_has_its_faults_in_json_without_an_option(tmp_path: Path) -> None:
    bundle = write(tmp_path / "toy" / "recorded", make_replay_check(make_stop()))
    result = CliRunner().invoke(doctor, ["--bundle", str(bundle), "--json"])
    assert result.exit_code == 3
    document = json.loads(result.output)
    assert document["schema"] == "graphviz-dash/replay-check"
    assert len(document["checks"][0]["stops"]) == 1


def test_a_hang_has_its_nodes_in_json() -> None:
    hang = make_stop(kind="hang", waited_ns=5_000_000_000, error=None)
    document = msgspec.to_builtins(
        build_replay_check_document([diagnose_replays(make_replay_check(hang))])
    )
    (stops,) = document["checks"][0]["stops"]
    assert (stops["kind"], stops["wait"]) == ("hang", 5_000_000_000)
    assert stops["suspects"][0]["node"] == 5


def test_a_program_has_to_be_marked_instead() -> None:
    result = CliRunner().invoke(doctor, ["--replays", "--", "python", "train.py"])
    assert result.exit_code == 2
    assert "collect --marks" in result.output


def test_an_experiment_without_a_check_says_how_to_make_one(tmp_path: Path) -> None:
    from graphviz_dash.errors import InputError

    write_sound = tmp_path / "toy" / "eager"
    info = WorkloadInfo("toy", "tests:toy", 0, 3, 3, 0)
    with BundleWriter(write_sound) as writer:
        writer.commit(manifest(ExecutionMode.GRAPH, info))
    result = CliRunner().invoke(doctor, ["--bundle", str(tmp_path / "toy"), "--replays"])
    assert isinstance(result.exception, InputError)
    assert "doctor --replays" in str(result.exception)


def test_the_page_begins_with_the_verdict(roots: Path) -> None:
    write(roots / "toy" / "doctor", make_wrong_check())
    page = markup(shown("doctor", experiment="toy"))
    assert ">Replays are wrong<" in page
    assert page.index("Replay 1 is wrong from aten::mul") < page.index("<article")
    assert page.count("<article") == 2
    assert '<span class="hit"><i>7</i>y = x * factor</span>' in page
    assert "<dt>Value in the capture</dt><dd>1.5</dd>" in page
    assert "<td>[0, 1]</td><td>1.5</td><td>1.25</td>" in page
    assert HARM not in page
    assert escape(HARM.partition("\x1b")[0]) in page


def test_a_fault_comes_before_the_rules_that_passed(roots: Path) -> None:
    captures = report(captured=True)
    sound = replace(make_replay_check(), values=(make_check(),))
    for name, check, is_first in (("wrong", make_wrong_check(), True), ("right", sound, False)):
        bundle = write(roots / name / "doctor", check, captures=captures)
        verdict = format_replay_verdict(diagnose_replays(check))
        other = escape(format_report_verdict(captures)[:40])
        page = markup(shown("doctor", experiment=name))
        terminal = CliRunner().invoke(doctor, ["--bundle", str(bundle)]).output
        for text in (page, " ".join(terminal.split())):
            order = text.index(escape(verdict[:40])), text.index(other)
            assert (order[0] < order[1]) == is_first


def test_the_page_shows_where_a_replay_stopped(roots: Path) -> None:
    write(roots / "toy" / "recorded", make_replay_check(make_stop()))
    page = markup(shown("doctor", experiment="toy"))
    assert ">Replay stopped<" in page
    assert '<span class="badge illegal">crash</span>' in page
    assert "<dt>Nodes that ended</dt><dd>5 of 9</dd>" in page


def test_compare_and_report_show_a_fault(tmp_path: Path) -> None:
    from graphviz_dash.narrative.doctor import list_verdicts

    write(tmp_path / "toy" / "recorded", make_replay_check(make_stop()))
    comparison = compare_runs(load_experiment(tmp_path / "toy", traces=False))
    ((name, verdict),) = list_verdicts(comparison)
    assert name == "recorded"
    assert verdict.startswith("Replay 21 of graph-0 crashed in node 5")


@pytest.mark.parametrize("page", ["overview", "compare", "graph", "timeline", "memory", "export"])
def test_a_marked_program_alone_opens_on_every_page(roots: Path, page: str) -> None:
    check = make_replay_check(make_stop())
    write(roots / "toy" / "recorded", check, ExecutionMode.RECORDED)
    shown(page) if page == "overview" else shown(page, experiment="toy")


def write_stop(folder: Path) -> str:
    """Write a marked program with its graph, and return the sentence of its crash."""
    check = make_replay_check(make_stop())
    info = WorkloadInfo("toy", "tests:toy", 0, 3, 3, 0)
    with BundleWriter(folder) as writer:
        writer.add(parts.REPLAY_CHECK, check)
        writer.add_graph(captured_graph(chain(9)))
        writer.commit(manifest(ExecutionMode.RECORDED, info))
    return format_stop(diagnose_replays(check).stops[0])


def write_wrong_sample(folder: Path) -> str:
    """Write the sample mlp-train with a real check of its step in which one operator is wrong, and
    return the sentence of that fault."""
    for name in ("eager", "graph"):
        shutil.copytree(SAMPLES / "mlp-train" / name, folder / name)
    content = gzip.decompress((CASES / "replay-check-mlp-train.json.gz").read_bytes())
    check = msgspec.json.decode(content, type=ReplayCheck)
    values = check.values[0]
    number = next(n for n, item in enumerate(values.operators) if item.name == "aten::relu")
    wrong = replace(
        values,
        differences=(make_difference(operator=number),),
        difference_count=1,
        facts=(make_fact(FactKind.SCALAR, number),),
        elements=replace(ELEMENTS, operator=number),
    )
    check = replace(check, values=(wrong,))
    write(folder / "doctor", check)
    return format_replay_verdict(diagnose_replays(check))


def test_a_crash_has_one_sentence_on_all_surfaces(roots: Path) -> None:
    sentence = escape(write_stop(roots / "toy" / "recorded"))
    graph = shown("graph", experiment="toy")
    assert sentence in markup(graph)
    assert graph.selectbox(key="choice-colour-0").value == "fault"
    assert "Show node 5" in {button.label for button in graph.button}
    timeline = markup(shown("timeline", experiment="toy"))
    assert sentence in timeline
    assert "graph-0, replay 21: 5 of 9 nodes ended" in timeline
    assert sentence in markup(shown("doctor", experiment="toy"))
    comparison = compare_runs(load_experiment(roots / "toy"))
    charts = draw_charts(comparison)
    report = render_report(
        comparison,
        build_kernel_table(comparison.experiment),
        charts.pictures,
        (charts.light, charts.dark),
    ).decode()
    assert sentence in report
    assert "5 of 9 nodes ended" in report
    # The graph of the fault is drawn, with its state as the legend.
    assert ">after the fault<" in report


def test_the_card_of_a_node_shows_its_part_in_a_crash(roots: Path) -> None:
    sentence = write_stop(roots / "toy" / "recorded")
    faulty = markup(shown("graph", experiment="toy", node="5"))
    assert "Replay check" in faulty
    assert faulty.count(escape(sentence)) == 2
    assert "5 of 9" in faulty
    assert "after the fault" in markup(shown("graph", experiment="toy", node="7"))
    assert "Replay check" not in markup(shown("graph", experiment="toy", node="3"))


def test_a_wrong_value_is_a_picture_on_the_card_of_its_node(roots: Path) -> None:
    sentence = write_wrong_sample(roots / "toy")
    page = shown("graph", experiment="toy", run="graph", node="4")
    assert escape(sentence) in markup(page)
    assert page.selectbox(key="choice-colour-0").value == "fault"
    card = markup(page)
    assert "First wrong elements, eager next to replay: [0, 1]: eager 1.5, replay 1.25" in card
    # The bars have the ratio of the values.
    heights = [float(text) for text in re.findall(r"height:([0-9.]+)px\"></i>", card)]
    assert heights == [44.0, pytest.approx(44.0 * 1.25 / 1.5, abs=0.1), 32.0]
    # A difference too small to see among the values has a separate scale, below zero here.
    assert "replay, up to 1.5<" in card
    assert "replay − eager, up to 0.25<" in card
    assert re.findall(r"--zero:([0-9.]+)px", card) == ["0.0", "32.0"]
    assert "32 of 32 elements differ; first 1 shown" in card


def test_right_replays_are_one_line_on_the_graph(roots: Path) -> None:
    write_wrong_sample(roots / "toy")
    content = gzip.decompress((CASES / "replay-check-mlp-train.json.gz").read_bytes())
    shutil.rmtree(roots / "toy" / "doctor")
    check = msgspec.json.decode(content, type=ReplayCheck)
    write(roots / "toy" / "doctor", check)
    page = shown("graph", experiment="toy", run="graph")
    assert "Replay check: All 214 tensors of 78 operators agree with eager steps" in markup(page)
    assert page.selectbox(key="choice-colour-0").value == "category"
